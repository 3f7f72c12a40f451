"""What a client is: it drives a program under test and returns what happened, never a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from mst.config.files import FileSource
from mst.errors import ErrorKind
from mst.model.base import Model
from mst.model.case import Case, Variant
from mst.model.transcript import Evidence, Transcript
from mst.model.trial import LimitHit
from mst.providers.limits import Limits
from mst.sandboxes.contract import Enclosure

Needs = Literal["nothing", "scratch", "workspace"]
"""What is made for each trial even when a case has no files; `workspace` includes `scratch`."""


@dataclass(frozen=True, kw_only=True)
class TrialContext:
    """What a client may use in one trial.

    Attributes:
        variant: the set-up under test; its `client_options` are validated against the client's `Options`.
        trial: number of the trial, from 0.
        prompt: the case's input through the variant's `input_template`; a mapping input is JSON here.
        scratch: a private folder (0700) outside the workspace, removed after the trial. It exists unless the client
            needs `nothing`.
        secrets: values of the declared secrets; they go into environments of processes and nowhere else.
        files: bytes of files that the options list, by digest.
        enclosure: runs the trial's programs; nothing of a trial runs in any other way.
        limits: how fast models may be asked, for clients that ask them themselves; the trials of one run share them.
        pricing: USD per million tokens by model, as the eval config has them.
    """

    variant: Variant
    trial: int
    prompt: str
    scratch: Path
    secrets: Mapping[str, str] = field(repr=False)
    files: FileSource
    enclosure: Enclosure
    limits: Limits = field(default_factory=Limits, repr=False)
    pricing: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ClientResult:
    """What happened in one trial.

    Attributes:
        limit_hit: the limit that ended it; what it left is graded as it stands.
        error: why it failed; `error_kind` then says whose fault it was (`agent`: the program's, graded as it stands;
            `environment`, `harness`: ours, never graded). Without a kind there is nothing to score: `incomplete`.
    """

    transcript: Transcript
    exit_code: int | None = None
    limit_hit: LimitHit | None = None
    error: str | None = None
    error_kind: ErrorKind | None = None
    agent_duration_ms: float | None = None
    metadata: dict[str, Any] | None = None
    telemetry: dict[str, Any] | None = None
    diagnostics: dict[str, Any] | None = None


class Client(Protocol):
    """One way to drive a program under test. Made once per variant and shard; `run` may be called concurrently.

    Class attributes:
        Options: the schema of `client_options`; unknown keys are refused.
        evidence: how far its transcripts can be trusted.
        starts_from: `fixture`, or `solution` when the reference solution is laid over the fixture.
        needs: what is made for it in every trial.

    A client may also have:
        paces_models: class attribute; True when it asks models itself and waits for its turn at each request, so that a
            whole trial takes no turn of its model's provider.
        waits_s: class attribute; seconds beyond its time limit that a trial may wait for turns and providers.
        check_files(files): see `ChecksFiles`.
    """

    Options: ClassVar[type[Model]]
    evidence: ClassVar[Evidence]
    starts_from: ClassVar[Literal["fixture", "solution"]]
    needs: ClassVar[Needs]

    def __init__(self, variant: Variant) -> None: ...

    def secrets_needed(self) -> list[str]:
        """Names of the secrets that go into its processes."""
        ...

    def preflight(self) -> list[str]:
        """Faults that would fail every trial, in words with the fix; empty when ready. Starts nothing."""
        ...

    async def run(self, case: Case, workspace: Path | None, context: TrialContext) -> ClientResult:
        """Drive the program on one case.

        The workspace is None for a case without files when the client needs none. Limits of the variant are kept
        by the client. On cancellation everything that was started is killed before CancelledError goes on.

        Raises:
            ClientError: it could not be driven (kind `environment` or `harness`).
        """
        ...

    async def close(self) -> None:
        """End what lives longer than a trial. Safe to call twice."""
        ...


@runtime_checkable
class StartsPrograms(Protocol):
    """A client that can name the programs under test, so that a trial's identity can say which ones they were."""

    def programs(self) -> Mapping[str, str | None]:
        """Programs as in argv, each with its declared search path, or None for the usual one."""
        ...


@runtime_checkable
class ImportsPackages(Protocol):
    """A client that runs Python code, and can say which modules, so that a trial's identity can name their packages."""

    def modules(self, files: FileSource) -> list[str]:
        """Top-level names of the modules that are asked for first; those of its own listed files are none of them."""
        ...


@runtime_checkable
class Probed(Protocol):
    """A client that talks to a model, and so is worth one short question before a run is paid.

    Attributes:
        probe_input: the question: answered in a word, without a tool.
    """

    probe_input: str


@runtime_checkable
class ChecksFiles(Protocol):
    """A client whose options list files that are worth a look before anything starts."""

    def check_files(self, files: FileSource) -> list[str]:
        """Faults of those files, as `preflight` has them. Reads, starts nothing."""
        ...
