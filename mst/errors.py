"""The one error tree. What a caller does about an error decides where it stands.

    MstError
      UsageError            the user can fix it: a config, an argument, a missing program or secret (exit 2)
        ConfigError         a fault in an eval config, a case or a dataset, with its place
        SecretMissing       a declared secret has no value
        AmbiguousRun        a reference means several runs
        DispatchTaken       another coordinator has sent this dispatch
      RefusedError          policy said no: a signature, a key, a permission (exit 5)
        VersionMismatch     two machines of one run have different versions
      InfrastructureError   a machine, a server or a file let us down (exit 4)
        StoreError          the result store
          ObjectMissing     no such object
          PreconditionFailed  a conditional write lost its race
          WrongSize         an object is longer or shorter than what it is taken for; a CorruptFile too
          StoreDenied       credentials refused or expired; never retried
          StoreUnavailable  the store did not answer; retryable
        BrokerError         the broker
        DigestMismatch      bytes differ from the digest that was promised for them
        CorruptFile         a stored document cannot be read
          NoChecksum        an earlier version wrote it: nothing tells whether it is as it was
        RunnerError         a runner could not provide its machines
        ProgramError        a program could not be started
      FormatError           a stored document is of another major version (exit 2)
      GraderError           a grader could not give a verdict; becomes a grading error, never a failed answer
      ClientError           the program under test could not be driven; `kind` says whose fault it was
      InvariantError        a bug of ours; always shown with its traceback

Exit codes are class data; `EXIT_CODES` is the table that the command line and the docs print.
"""

from __future__ import annotations

from typing import ClassVar, Literal

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "the gate failed, or an oracle or noop check did",
    2: "usage or configuration",
    3: "incomplete: something has no result yet, as at a deadline; resume finishes it",
    4: "infrastructure: broker or store unreachable, corrupt manifest, truncated bundle",
    5: "refused: signature, admission or policy",
    130: "interrupted",
}

ErrorKind = Literal["environment", "agent", "scorer", "harness", "worker_lost", "broker"]


class MstError(Exception):
    """Root of every error that this program raises on purpose. The message says what to do next."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 4
    retryable: ClassVar[bool] = False


class UsageError(MstError):
    """The user can fix it."""

    code = "usage"
    exit_code = 2


class ConfigError(UsageError):
    """One or more faults in an eval config, its cases or its files; one line each, with its place."""

    code = "config"

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class NothingSent(UsageError):
    """Who began a run was killed before it sent anything out, so there is nothing to follow."""

    code = "nothing_sent"


class DispatchTaken(UsageError):
    """Another coordinator was the first to send the next dispatch of a run."""

    code = "dispatch_taken"

    def __init__(self, message: str, dispatch: str) -> None:
        super().__init__(message)
        self.dispatch = dispatch


class SecretMissing(UsageError):
    """A declared secret has no value that may be sent."""

    code = "secret_missing"


class AmbiguousRun(UsageError):
    """A reference means several runs; the message lists them."""

    code = "ambiguous_run"


class FormatError(UsageError):
    """A stored document has another major version: the message says upgrade or rerun."""

    code = "format"


class RefusedError(MstError):
    """Policy said no."""

    code = "refused"
    exit_code = 5


class VersionMismatch(RefusedError):
    """Two machines of one run have different versions of mst or of a plugin."""

    code = "version"


class InfrastructureError(MstError):
    """A machine, a server or a file let us down."""

    code = "infrastructure"


class StoreError(InfrastructureError):
    """The result store failed."""

    code = "store"


class ObjectMissing(StoreError):
    """No object has this key."""

    code = "object_missing"


class PreconditionFailed(StoreError):
    """A conditional write found the object already there, or changed."""

    code = "precondition_failed"


class StoreDenied(StoreError):
    """The store refused the credentials. Not retried: nobody's waiting mends a key."""

    code = "store_denied"


class StoreExpired(StoreDenied):
    """The short-lived credentials of one shard are at their end, and nobody has made new ones."""

    code = "store_expired"


class StoreUnavailable(StoreError):
    """The store did not answer, or asked to slow down."""

    code = "store_unavailable"
    retryable = True


class BrokerError(InfrastructureError):
    """The broker is unreachable or unfit."""

    code = "broker"


class DigestMismatch(InfrastructureError):
    """Bytes differ from the digest that was promised for them."""

    code = "digest_mismatch"


class CorruptFile(InfrastructureError):
    """A stored document cannot be read."""

    code = "corrupt_file"


class NoChecksum(CorruptFile):
    """A document has no checksum, as earlier versions wrote it: nothing tells whether it is as it was."""

    code = "no_checksum"


class WrongSize(StoreError, CorruptFile):
    """An object is longer or shorter than what it is taken for: it can't be read as that, and no waiting mends it."""

    code = "wrong_size"


class RunnerError(InfrastructureError):
    """A runner could not provide its machines."""

    code = "runner"


class ProgramError(InfrastructureError):
    """A program could not be started: missing, not executable, or its working folder is gone."""

    code = "program"


GradingFault = Literal[
    "grader", "answer", "refusal", "auth", "quota", "rate_limit", "timeout", "transport", "server", "request", "stopped"
]
"""Why a grader gave no verdict: the grader itself, an unusable answer, the model declined, the key, the money, too many
requests, no answer in time, no connection, the provider's own error, a request that the provider does not take;
`stopped`: not asked, since others ended so."""


class GraderError(MstError):
    """A grader could not give a verdict.

    Attributes:
        kind: why; some kinds would meet every further call too, and stop the grader for now.
    """

    code = "grader"
    exit_code = 3

    def __init__(self, message: str, kind: GradingFault = "grader") -> None:
        super().__init__(message)
        self.kind: GradingFault = kind


class ClientError(MstError):
    """The program under test could not be driven.

    Attributes:
        kind: whose fault it was; `environment` and `harness` make an infrastructure failure, `agent` a failed answer.
    """

    code = "client"

    def __init__(self, message: str, kind: ErrorKind = "environment") -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind


class InvariantError(MstError):
    """A bug of ours."""

    code = "invariant"
