from __future__ import annotations

import yaml

from mst.report.gradesets import grade_sets, lines
from mst.runs.locate import regrades_of
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval


def regraded(tmp_path, *assertions):
    config = write_echo_eval(tmp_path / "eval")
    source = collect_run(config, tmp_path / "results")
    grade_here(source, tmp_path / "scratch-0")
    for number, text in enumerate(assertions, 1):
        written = yaml.safe_load(config.read_text())
        written["assertions"] = [{"name": "contains", "contains_text": text}]
        config.write_text(yaml.safe_dump(written))
        grade_here(source, tmp_path / f"scratch-{number}")
    return regrades_of(source)


def test_each_set_keeps_its_identities_and_its_rates(tmp_path):
    folders = regraded(tmp_path, "please", "say")
    document = grade_sets(folders)
    assert [found["runId"] for found in document["sets"]] == [folder.run_id for folder in folders]
    assert [found["variants"]["plain"]["passed"] for found in document["sets"]] == [0, 0, 4]
    identities = [found["graders"][0]["identity"] for found in document["sets"]]
    assert identities[0] == identities[1] != identities[2]


def test_what_came_out_differently_is_told_by_trial_and_by_grader(tmp_path):
    _, second, third = regraded(tmp_path, "please", "say")
    (change,) = grade_sets([second, third])["changes"]
    assert (change["trials"], change["up"], change["down"], change["flipCount"]) == (8, 4, 0, 4)
    assert {flip["variant"] for flip in change["flips"]} == {"plain"}
    assert change["graders"]["contains"]["state"] == "changed"
    assert (change["graders"]["contains"]["differ"], change["graders"]["contains"]["both"]) == (4, 8)
    text = "\n".join(lines(grade_sets([second, third])))
    assert "of 8 trials 4 now pass" in text
    assert "another identity; verdicts differ on 4 of 8" in text


def test_a_grader_that_only_one_set_has_is_named(tmp_path):
    first, second = regraded(tmp_path, "please")
    (change,) = grade_sets([first, second])["changes"]
    assert change["flipCount"] == 0
    assert {name: found["state"] for name, found in change["graders"].items()} == {
        "contains_text": "gone",
        "contains": "new",
    }
    assert "every one of 8 trials came out the same" in "\n".join(lines(grade_sets([first, second])))


def test_a_grading_that_never_finished_is_listed_without_numbers(tmp_path):
    first, second = regraded(tmp_path, "please")
    (second.path / "results.json").unlink()
    document = grade_sets([first, second])
    assert document["changes"] == []
    assert document["sets"][1]["variants"]["plain"]["scored"] == 0


def test_no_grading_at_all(tmp_path):
    assert grade_sets([]) == {"sets": [], "changes": []}


def test_a_grader_of_several_variants_is_listed_once_unless_they_differ():
    def grader(level, identity, name="q"):
        return {"name": name, "level": level, "type": "rubric", "identity": identity, "model": None, "promptHash": None}

    same = [grader("variant:a", "one-identity"), grader("variant:b", "one-identity")]
    apart = [grader("variant:a", "one-identity", "r"), grader("variant:b", "two-identity", "r")]
    found = {"partial": False, "runId": "r", "phase": "complete", "variants": {}, "graders": [*same, *apart]}
    shown = [line.split() for line in lines({"sets": [found], "changes": []})][1:]
    assert shown == [
        ["q", "rubric", "one-iden"],
        ["r", "rubric", "one-iden", "(variant", "a)"],
        ["r", "rubric", "two-iden", "(variant", "b)"],
    ]
