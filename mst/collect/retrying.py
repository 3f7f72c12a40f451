"""When a trial is made again, and how the attempts hang together. Pure.

An answer is never rolled again: only what the machine or we broke is tried once more. What a program got wrong, ran out
of time for, or did not answer is its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mst.collect.trial import Collected
from mst.model.trial import TrialRecord

RETRIED = frozenset({"environment", "harness"})
"""Kinds of error after which a trial is made again at once. What a fleet lost is sent out again by the fleet."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


def may_retry(record: TrialRecord, *, made: int, retries: int) -> bool:
    """Whether a trial is made again.

    Args:
        record: of the last attempt.
        made: attempts so far, this one included.
        retries: how many more than one there may be.
    """
    return record.infrastructure_error and record.error_kind in RETRIED and made <= retries


def pause_s(made: int) -> float:
    """How long to wait after this many attempts: what is overloaded or restarts needs a moment. Doubles, to a limit."""
    return min(FIRST_PAUSE_S * (1 << min(made - 1, 10)), LONGEST_PAUSE_S)


def joined(superseded: Sequence[Collected], last: Collected) -> Collected:
    """The last attempt with those before it; each points to the one that it replaced."""
    if not superseded:
        return last
    linked = link([attempt.record for attempt in (*superseded, last)])
    before = [replace(attempt, record=record) for attempt, record in zip(superseded, linked, strict=False)]
    return replace(last, record=linked[-1], superseded=tuple(before))


def link(records: Sequence[TrialRecord], *, after: Sequence[TrialRecord] = ()) -> list[TrialRecord]:
    """Attempts of one trial, numbered and each pointing to the one before it.

    Args:
        records: first to last.
        after: attempts that were made before all of these.
    """
    previous = after[-1].attempt_id if after else None
    number = len(after)
    found = []
    for record in records:
        number += 1
        update = {"attempt": number, "retry_of": previous} if number > 1 else {"attempt": None, "retry_of": None}
        found.append(record.model_copy(update=update))
        previous = record.attempt_id
    return found
