from __future__ import annotations

import pytest

from mst.errors import GraderError
from mst.judges.view import case_view, is_empty, trial_view, unmet
from mst.model.case import Case
from mst.model.transcript import Event
from mst.testing.judge import VARIANT, make_subject


def test_nothing_that_judges_see_names_the_variant(tmp_path):
    subject = make_subject(tmp_path, files={"a.txt": "x"})
    assert VARIANT not in repr((case_view(subject.case), trial_view(subject)))


def test_long_outputs_are_cut_and_say_by_how_much(tmp_path):
    events = [Event(kind="tool_call", name="a", output="x" * 30), Event(kind="tool_call", name="b", output={"k": 1})]
    view = trial_view(make_subject(tmp_path, events=events), max_tool_output=10)
    shown = view["transcript"]["events"]
    assert shown[0]["output"] == "x" * 10 + " [20 more characters]"
    assert shown[1]["output"] == {"k": 1}


def test_paths_go_through_mappings_and_lists(tmp_path):
    case = Case(id="c", dataset="d", expected={"items": [{"name": "x"}, 0], "off": False}, input="")
    subject = make_subject(tmp_path, case=case, files={"a.txt": "x"})
    there = ["case.expected.items.0.name", "case.expected.items.1", "case.expected.off", "trial.artifacts.0", "case.id"]
    assert unmet(there, subject) == []
    missing = ["case.expected.items.2", "case.expected.items.x", "case.input", "trial.diff", "case.id.x"]
    assert unmet(missing, subject) == missing


@pytest.mark.parametrize("path", ["expected.answer", "case", "", "."])
def test_a_path_with_another_start_is_an_error(tmp_path, path):
    with pytest.raises(GraderError, match="must start with"):
        unmet([path], make_subject(tmp_path))


@pytest.mark.parametrize(
    ("value", "empty"), [(None, True), ("", True), ([], True), ({}, True), (0, False), (False, False)]
)
def test_zero_and_false_are_values(value, empty):
    assert is_empty(value) is empty
