"""What all trials of a run are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mst.config.files import FileSource
from mst.model.case import StageTimeouts
from mst.process.redact import Redactor
from mst.providers.limits import Limits


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a trial may use, and what is the same for every trial of a run.

    Attributes:
        files: finds fixtures and what clients list.
        secrets: by name; a client gets those that it needs.
        redactor: takes the secrets out of what is kept. One for all: making one costs more than a cheap trial.
        scratch_root: an existing folder for workspaces and artifacts, best outside any repository.
        timeouts: of the stages around the client.
        limits: who gives turns to requests to models; none unless given.
        pricing: USD per million tokens by model.
    """

    run_id: str
    files: FileSource
    secrets: Mapping[str, str] = field(repr=False)
    redactor: Redactor = field(repr=False)
    scratch_root: Path
    timeouts: StageTimeouts
    limits: Limits = field(default_factory=Limits, repr=False)
    pricing: Mapping[str, Any] = field(default_factory=dict)
