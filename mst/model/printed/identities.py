"""What two attempts were made of, as `mst diff-identity` prints it."""

from __future__ import annotations

from typing import Any

from mst.model.printed.base import Printed


class IdentityDifference(Printed):
    """A part in which two attempts differ; `a` and `b` when a value says more than the sentence."""

    part: str
    said: str
    variant: str | None = None
    cases: list[str] | None = None
    a: Any = None
    b: Any = None
    trials: int | None = None


class IdentitiesDocument(Printed):
    """`mst diff-identity`."""

    a: str
    b: str
    comparable: bool
    trials: int
    differences: list[IdentityDifference]
