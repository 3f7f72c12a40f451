"""What to do after a model gave no answer: ask again, ask the next provider, or give up. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mst.errors import GradingFault

MAX_TOLD_WAITS = 8
"""How often a provider may say "too many requests" to one call."""
MAX_WAIT_S = 300.0
"""The longest wait that is kept when a provider names one."""
FIRST_WAIT_S = 0.5
LONGEST_BACKOFF_S = 30.0


class ModelFault(Exception):
    """A model gave no usable answer.

    Attributes:
        status: of the HTTP answer, if there was one.
        retry_after_s: how long the provider said to wait.
    """

    def __init__(
        self, message: str, kind: GradingFault, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind: GradingFault = kind
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Again:
    """Ask the same provider again after a wait; `told` when the provider asked for it, which spends no retry."""

    wait_s: float
    told: bool = False


@dataclass(frozen=True)
class Leave:
    """Ask the next provider."""


@dataclass(frozen=True)
class GiveUp:
    """No verdict."""


def after(
    fault: ModelFault, *, retries_left: int, retried: int, told_waits: int, is_last: bool
) -> Again | Leave | GiveUp:
    """Decide.

    Only transport faults are tried again: no connection, no answer in time, the provider's own error. "Too many
    requests" is waited out as told and spends no retry. A provider is left for the next one only for 402, 5xx and no
    answer in time: what would be wrong everywhere, as a refused key, is not hidden by asking elsewhere.

    Args:
        fault: what went wrong.
        retries_left: transport faults that this provider may still have.
        retried: how many it had.
        told_waits: waits that this provider asked for so far.
        is_last: whether there is no further provider.
    """
    if fault.kind == "rate_limit":
        wait_s = fault.retry_after_s if fault.retry_after_s is not None else backoff_s(told_waits)
        if told_waits >= MAX_TOLD_WAITS or wait_s > MAX_WAIT_S:
            return GiveUp()
        return Again(wait_s, told=True)
    if fault.kind in {"server", "timeout", "transport"} and retries_left > 0:
        wait_s = fault.retry_after_s if fault.retry_after_s is not None else backoff_s(retried)
        return Again(min(wait_s, MAX_WAIT_S))
    leaves = fault.kind in {"server", "timeout"} or fault.status == 402
    return Leave() if leaves and not is_last else GiveUp()


def backoff_s(before: int) -> float:
    """The wait before the next try: doubled each time, bounded."""
    return float(min(FIRST_WAIT_S * 2.0**before, LONGEST_BACKOFF_S))


def bound_s(timeout_s: float, *, retries: int, providers: int) -> float:
    """The longest that one call may take in all: every try at its time limit, and every wait."""
    tries = providers * (retries + 1)
    return tries * (timeout_s + LONGEST_BACKOFF_S) + MAX_TOLD_WAITS * MAX_WAIT_S
