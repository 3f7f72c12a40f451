"""`mst grade --reuse`, `--only` and several grade sets of one run, on the sample eval with its real programs."""

from __future__ import annotations

import json

import pytest
import yaml

from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.testing.commandline import run_mst
from mst.testing.sample_eval import BROKEN_CASE, calls, write_sample_eval


class Stored:
    def __init__(self, home):
        self.home = home
        self.marks = home / "marks"
        self.config = write_sample_eval(home, self.marks, concurrency=2, trials=1)
        collected = run_mst("run", self.config, "--no-grade", cwd=home)
        assert collected.code == 0, collected.err
        [self.run] = (home / ".mst-results" / "sample" / "runs").iterdir()
        self.first = self.grade()
        self.asked_first = calls(self.marks)

    def grade(self, *options):
        (self.marks / "calls").unlink(missing_ok=True)
        said = run_mst("grade", self.run, *options, cwd=self.home)
        assert said.code in (0, 1, 3), said.err
        return regrades_of(RunFolder(self.run))[-1]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return Stored(tmp_path_factory.mktemp("reuse"))


def test_the_same_graders_are_not_asked_again_but_where_they_gave_no_verdict(stored):
    second = stored.grade("--reuse", stored.first.run_id)
    again = calls(stored.marks)
    assert sum(stored.asked_first.values()) > 4 * sum(again.values()) > 0
    assert second.run().grading.reused_from == stored.first.run_id
    assert second.summary().variants == stored.first.summary().variants


def test_shards_elsewhere_are_not_asked_again_either(stored):
    stored.grade("--reuse", stored.first.run_id, "--runner", "process", "--runner-option", "shards=2")
    assert sum(calls(stored.marks).values()) * 4 < sum(stored.asked_first.values())


def test_another_grader_is_asked_and_the_others_are_taken_over(stored):
    other = stored.home / "other.yaml"
    config = yaml.safe_load(stored.config.read_text())
    config["judges"][1]["version"] = "2"
    other.write_text(yaml.safe_dump(config, sort_keys=False))
    regrade = stored.grade("--config", other, "--reuse", stored.first.run_id)
    asked = calls(stored.marks)
    assert {call.split()[0] for call in asked} == {"answers", "reader", "taste"}
    assert all(BROKEN_CASE in call for call in asked if call.startswith("reader"))
    assert regrade.run().grading.reused_from == stored.first.run_id


def test_only_what_owes_a_verdict_is_graded_and_the_latest_stays(stored):
    latest = stored.run.parent.parent / "latest.json"
    before = latest.read_bytes() if latest.exists() else None
    regrade = stored.grade("--only", "errors", "--reuse", stored.first.run_id)
    run = regrade.run()
    assert run.partial
    assert run.selection.only == ["errors"]
    assert 0 < len(regrade.cases().ids) <= len(RunFolder(stored.run).cases().ids)
    assert (latest.read_bytes() if latest.exists() else None) == before
    said = run_mst("grade", regrade.run_id, "--resume", cwd=stored.home)
    assert said.code == 3, said.err
    assert regrade.run().selection.only == ["errors"]


def test_one_case_by_name_and_a_name_that_is_not_there(stored):
    [case_id, *_] = RunFolder(stored.run).cases().ids
    regrade = stored.grade("--only", f"case={case_id}")
    assert regrade.cases().ids == [case_id]
    assert regrade.run().phases.grade == "complete"
    latest = stored.run.parent.parent / "latest.json"
    assert not latest.exists() or regrade.run_id not in latest.read_text()
    said = run_mst("grade", stored.run, "--only", "case=nobody", cwd=stored.home)
    assert said.code == 2
    assert "no such case" in said.err


def test_a_regrade_of_other_trials_is_no_source(stored):
    elsewhere = run_mst("run", stored.config, "--no-grade", cwd=stored.home)
    assert elsewhere.code == 0
    [other] = [path for path in stored.run.parent.iterdir() if path.name[:22] != stored.run.name[:22]]
    said = run_mst("grade", stored.run, "--reuse", other.name, cwd=stored.home)
    assert said.code == 2
    assert "other trials" in said.err


def test_the_gradings_of_a_run_are_shown_side_by_side(stored):
    said = run_mst("show", stored.run, "--grade-sets", "--json", cwd=stored.home)
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert [found["runId"] for found in document["sets"]] == [
        folder.run_id for folder in regrades_of(RunFolder(stored.run))
    ]
    assert {change["from"] for change in document["changes"]} == {stored.first.run_id}
    text = run_mst("show", stored.run, "--grade-sets", cwd=stored.home).out
    assert "verdicts differ on" in text
