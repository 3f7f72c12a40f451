"""Whose fault it was: every stage of a trial is timed, and the first error is tagged with the stage it came from."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mst.errors import ClientError, ErrorKind, InfrastructureError, MstError


class StageFailed(Exception):
    """A stage ended a trial; its `Failure` is kept in `Stages`."""


@dataclass(frozen=True)
class Failure:
    """What went wrong. `trace` is set for what nobody expected."""

    stage: str
    kind: ErrorKind
    message: str
    trace: str | None = None


class Stages:
    """Times and the failure of one trial."""

    def __init__(self) -> None:
        self.times_ms: dict[str, float] = {}
        self.failure: Failure | None = None

    @contextmanager
    def stage(self, name: str, kind: ErrorKind) -> Iterator[None]:
        """Run one stage. An error that names its own kind keeps it; any other gets the stage's.

        Raises:
            StageFailed: in place of every error. Cancellation passes.
        """
        started = time.perf_counter()
        try:
            yield
        except ClientError as error:
            self._fail(Failure(name, error.kind, str(error)))
            raise StageFailed from error
        except InfrastructureError as error:
            self._fail(Failure(name, "environment", str(error)))
            raise StageFailed from error
        except MstError as error:
            self._fail(Failure(name, kind, str(error)))
            raise StageFailed from error
        except Exception as error:
            # One trial's failure never ends the run; what it was is kept with its traceback.
            trace = "".join(traceback.format_exception(error, limit=-8))[-4000:]
            self._fail(Failure(name, kind, f"{type(error).__name__}: {error}", trace))
            raise StageFailed from error
        finally:
            self.times_ms[name] = round((time.perf_counter() - started) * 1000, 3)

    def _fail(self, failure: Failure) -> None:
        if self.failure is None:
            self.failure = failure
