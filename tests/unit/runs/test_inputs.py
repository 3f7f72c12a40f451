"""What a grading starts from, when cases were changed after the run was collected."""

from __future__ import annotations

import pytest

from mst.errors import UsageError
from mst.runs.inputs import grade_inputs
from mst.testing.stored_run import collect_run, write_echo_eval


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, False),
        ({"expected": {"answer": "another"}}, False),
        ({"tags": ["new"]}, False),
        ({"input": "say something else"}, True),
        ({"setup": [["true"]]}, True),
    ],
)
def test_a_case_that_asks_something_else_now_is_named(tmp_path, changed, told):
    config = write_echo_eval(tmp_path / "eval", cases={"a": {}, "b": {}})
    folder = collect_run(config, tmp_path / "results")
    write_echo_eval(tmp_path / "eval", cases={"a": {}, "b": changed})
    (tmp_path / "scratch").mkdir()
    notes = grade_inputs(folder.run(), folder, None, tmp_path / "scratch").notes
    assert any("b: asked otherwise now" in note for note in notes) is told
    assert not any(" a" in note.split(": asked")[0] for note in notes if "asked otherwise" in note)


def test_a_case_that_is_gone_is_refused(tmp_path):
    config = write_echo_eval(tmp_path / "eval", cases={"a": {}, "b": {}})
    folder = collect_run(config, tmp_path / "results")
    write_echo_eval(tmp_path / "eval", cases={"a": {}})
    with pytest.raises(UsageError, match="no dataset has the run's cases b any more"):
        grade_inputs(folder.run(), folder, None, tmp_path)
