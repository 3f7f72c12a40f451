"""What all trials of a run are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from mst.config.files import FileSource
from mst.model.case import EvalPlan, StageTimeouts
from mst.process.redact import Redactor
from mst.providers.limits import Limits


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a trial may use, and what is the same for every trial of a run.

    Attributes:
        files: finds fixtures and what clients list.
        secrets: by name; the only values that clients get, each those that it needs.
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

    @classmethod
    def of(
        cls,
        plan: EvalPlan,
        *,
        run_id: str,
        files: FileSource,
        secrets: Mapping[str, str],
        scratch_root: Path,
        redactor: Redactor | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """What a plan's trials are given.

        Args:
            redactor: of someone who renews secrets meanwhile; made from `secrets` unless given.
            limits: limits of this process alone unless given.
        """
        return cls(
            run_id=run_id,
            files=files,
            secrets=secrets,
            redactor=Redactor(secrets.values()) if redactor is None else redactor,
            scratch_root=scratch_root.resolve(),
            timeouts=plan.stage_timeouts,
            limits=limits or Limits(plan.rate_limits.get("providers")),
            pricing=plan.pricing,
        )
