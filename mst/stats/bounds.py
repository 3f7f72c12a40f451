"""What trials without a verdict could do to a pass rate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorBounds:
    """A pass rate under each policy for trials without a verdict. None where there is nothing to divide by.

    Attributes:
        exclude: such trials left out (what reports show as the rate).
        count_as_fail: such trials failed.
        lower, upper: the worst and the best that they could have been.
    """

    exclude: float | None
    count_as_fail: float | None
    lower: float | None
    upper: float | None


def error_bounds(passed: int, failed: int, errored: int) -> ErrorBounds:
    """Bounds from trial counts."""
    scored, everything = passed + failed, passed + failed + errored
    if not everything:
        return ErrorBounds(None, None, None, None)
    return ErrorBounds(
        passed / scored if scored else None,
        passed / everything,
        passed / everything,
        (passed + errored) / everything,
    )
