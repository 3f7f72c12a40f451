"""What the oracle shows, and when it has nothing to show."""

from __future__ import annotations

import asyncio

import pytest

from mst.clients.oracle import Oracle
from mst.model.base import FileRef
from mst.model.case import Case, Variant
from mst.testing.client import one_run

VARIANT = Variant(name="oracle", client="oracle")
SOLUTION = [FileRef(path="a", sha256="0" * 64, size=1)]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"expected": {"answer": "42"}}, "42"),
        ({"expected": {"answer": {"a": 1}}}, '{"a": 1}'),
        ({"solution": SOLUTION, "fixture": []}, ""),
        ({"solution": SOLUTION, "fixture": [], "expected": {"answer": "x"}}, "x"),
    ],
)
def test_it_answers_what_is_expected(tmp_path, fields, text):
    result = asyncio.run(one_run(Oracle(VARIANT), Case(id="c", dataset="d", **fields), VARIANT, tmp_path))
    assert (result.transcript.final_text, result.error) == (text, None)


def test_without_answer_and_solution_there_is_nothing_to_score(tmp_path):
    result = asyncio.run(one_run(Oracle(VARIANT), Case(id="c", dataset="d"), VARIANT, tmp_path))
    assert result.error_kind is None
    assert "nothing to show" in result.error
