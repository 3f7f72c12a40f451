"""A grading under way: what is graded into which folder, where that happens, and who hears of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord
from mst.runs.folder import RunFolder
from mst.runs.grading import GradedCase, Told
from mst.shards.contract import Cancel, Runner, ShardEvents
from mst.shards.request import GradeRequest


@dataclass(frozen=True, kw_only=True)
class GradingContext:
    """Where a grading runs, who stops it and who hears of it.

    Attributes:
        runner: of the shards; what is graded in this process only asks it what to record.
        events: told how shards get on.
        told: told of each unit that this process graded.
        on_case: told of each case once its files are written.
        watching: entered with the folder that is written, for as long as it is.
        say: told what a person should read.
    """

    runner: Runner
    events: ShardEvents
    cancel: Cancel
    told: Told | None = None
    on_case: Callable[[GradedCase], None] | None = None
    watching: Callable[[RunFolder], AbstractContextManager[None]] = lambda _folder: nullcontext()
    say: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True)
class GradingUnderWay:
    """What one call grades.

    Attributes:
        folder: that is written: the run's own, or a regrade's beside it.
    """

    request: GradeRequest
    folder: RunFolder
    context: GradingContext


@dataclass(frozen=True, kw_only=True)
class Graded:
    """A finished grading; its summary says how complete it is. `refused` tells why no shard could start."""

    folder: RunFolder
    summary: SummaryRecord
    refused: str | None = None


def with_runner(run: RunRecord, **changes: Any) -> RunRecord:
    """A grading's record with some fields of its runner changed."""
    assert run.grading is not None
    runner = run.grading.runner.model_copy(update=changes)
    return run.model_copy(update={"grading": run.grading.model_copy(update={"runner": runner})})
