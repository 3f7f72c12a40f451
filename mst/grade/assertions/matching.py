"""Matching expected calls with events, each event used once: as many as possible, the required ones first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Fits = Sequence[Sequence[bool]]
"""Rows: expected calls; columns: events."""


def assign(fits: Fits, required: Sequence[bool]) -> set[int]:
    """The expected calls that can be matched with events of their own, in any order.

    Augmenting paths (Kuhn's algorithm), required calls first: a later one never unmatches an earlier one, so that as
    many required calls as possible are matched.
    """
    owner: dict[int, int] = {}
    order = sorted(range(len(fits)), key=lambda call: not required[call])
    return {call for call in order if _augment(call, fits, owner)}


def _augment(start: int, fits: Fits, owner: dict[int, int]) -> bool:
    """Find an event for a call by breadth-first search, moving calls that can give theirs up."""
    came_from: dict[int, int] = {}
    queue = [start]
    for call in queue:
        for event, fit in enumerate(fits[call]):
            if not fit or event in came_from:
                continue
            came_from[event] = call
            if event in owner:
                queue.append(owner[event])
                continue
            _hand_over(event, start, came_from, owner)
            return True
    return False


def _hand_over(event: int, start: int, came_from: dict[int, int], owner: dict[int, int]) -> None:
    """Give each call on the path the event that it was reached by."""
    held = {call: taken for taken, call in owner.items()}
    while True:
        call = came_from[event]
        owner[event] = call
        if call == start:
            return
        event = held[call]


def assign_in_order(fits: Fits, required: Sequence[bool]) -> set[int]:
    """The expected calls that can be matched so that events come in the calls' order.

    A longest common subsequence where a required call weighs more than all optional ones together.
    """
    calls, events = len(fits), len(fits[0]) if fits else 0
    weight = [calls + 1 if each else 1 for each in required]
    best = [[0] * (events + 1) for _ in range(calls + 1)]
    for call in range(calls - 1, -1, -1):
        for event in range(events - 1, -1, -1):
            here = max(best[call + 1][event], best[call][event + 1])
            if fits[call][event]:
                here = max(here, weight[call] + best[call + 1][event + 1])
            best[call][event] = here
    matched, call, event = set(), 0, 0
    while call < calls and event < events:
        if fits[call][event] and best[call][event] == weight[call] + best[call + 1][event + 1]:
            matched.add(call)
            call, event = call + 1, event + 1
        elif best[call][event] == best[call + 1][event]:
            call += 1
        else:
            event += 1
    return matched
