"""Assertions by name: deterministic graders that need no model."""

from __future__ import annotations

from mst.grade.assertions.base import Assertion, ProgramAssertion
from mst.grade.assertions.limits import LIMIT_ASSERTIONS
from mst.grade.assertions.numbers import NUMBER_ASSERTIONS
from mst.grade.assertions.schema import JSON_ASSERTIONS
from mst.grade.assertions.similarity import SIMILARITY_ASSERTIONS
from mst.grade.assertions.text import TEXT_ASSERTIONS
from mst.grade.assertions.tools import TOOL_ASSERTIONS
from mst.grade.assertions.workspace import WORKSPACE_ASSERTIONS

ASSERTIONS: dict[str, Assertion | ProgramAssertion] = {
    **TEXT_ASSERTIONS,
    **NUMBER_ASSERTIONS,
    **JSON_ASSERTIONS,
    **LIMIT_ASSERTIONS,
    **SIMILARITY_ASSERTIONS,
    **TOOL_ASSERTIONS,
    **WORKSPACE_ASSERTIONS,
}
"""Every built-in assertion."""

__all__ = ["ASSERTIONS", "Assertion", "ProgramAssertion"]
