"""Lines on standard error while a command works."""

from __future__ import annotations

from typing import Literal

from mst.model.printed.base import Printed


class ProgressLine(Printed):
    """A line on standard error while a command works."""

    event: Literal["progress"]
    what: str
    done: int
    planned: int | None
    passed: int
    problems: int
    cost_usd: float
    shards: dict[str, int]
    elapsed_s: float
    per_second: float
    left_s: int | None
    last_error: str | None


class NoteLine(Printed):
    """A line on standard error: something to know."""

    event: Literal["note"]
    text: str
