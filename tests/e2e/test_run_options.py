"""What `mst run` finds out before it starts, and its ways to add to a run or to run a part of it again."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest

import mst.cli.running
from mst.runs.folder import RunFolder
from mst.testing.commandline import call_mst

JUDGE = """
import json, sys
given = json.load(sys.stdin)
with open({log!r}, "a") as log:
    log.write("asked\\n")
print(json.dumps({{"score": 1.0}}))
"""


class Bench:
    """An eval of one echo client in a folder, its runs, and calls of `mst run`."""

    def __init__(self, home, capsys):
        self.home, self.capsys = home, capsys
        self.config = {
            "name": "e",
            "client": "echo",
            "datasets": [{"file": "cases.yaml"}],
            "variants": [{"name": "a"}, {"name": "b"}],
            "assertions": [{"contains_text": "x"}],
        }
        self.cases = [{"id": f"c{n}", "input": f"x{n}"} for n in range(3)]

    def call(self, *options, command="run"):
        (self.home / "cases.yaml").write_text(json.dumps(self.cases))
        (self.home / "eval.yaml").write_text(json.dumps(self.config))
        return call_mst(self.capsys, command, self.home / "eval.yaml", "--output-dir", self.home / "r", *options)

    def runs(self):
        return sorted((self.home / "r" / "e" / "runs").glob("*")) if (self.home / "r").exists() else []

    def run(self, *options, code=0):
        before = self.runs()
        said = self.call(*options)
        assert said.code == code, said.err
        [made] = [path for path in self.runs() if path not in before]
        return RunFolder(made)

    def asked(self):
        """Calls of the judge since the last look."""
        log = self.home / "log"
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count

    def with_judge(self):
        (self.home / "judge.py").write_text(JUDGE.format(log=str(self.home / "log")))
        judge = {"name": "style", "command": {"argv": ["{{python}}", "judge.py"], "files": ["judge.py"]}}
        self.config["judges"] = [judge]


@pytest.fixture
def bench(tmp_path, capsys):
    return Bench(tmp_path, capsys)


def trials(folder):
    return Counter(path.parts[-3] for path in folder.path.glob("transcripts/*/*/*.json"))


# Before it starts


def test_all_faults_are_said_at_once_and_no_run_is_made(bench):
    (bench.home / "bad.py").write_text("def check(:\n")
    bench.cases[0]["checks"] = "bad.py"
    bench.config["client"] = "command"
    bench.config["variants"] = [
        {"name": "a", "client_options": {"argv": ["no-such-program"]}},
        {"name": "b", "client_options": {"argv": ["cat"], "env": {"KEY": {"secret": "ABSENT_KEY"}}}},
    ]
    bench.config["judges"] = [{"command": {"argv": ["no-such-judge"], "secrets": ["ABSENT_JUDGE_KEY"]}}]
    said = bench.call("--grade-runner", "process", "--grade-runner-option", "nonsense=1")
    assert said.code == 2
    for words in ("no-such-program", "ABSENT_KEY", "bad.py:1", "nonsense"):
        assert sum(words in line for line in said.error_lines) == 1, (words, said.err)
    assert bench.runs() == []


def test_a_judge_that_cannot_judge_is_found_before_anything_is_collected(bench):
    bench.config["judges"] = [{"command": {"argv": ["no-such-judge"]}}]
    said = bench.call()
    assert said.code == 2
    assert "no-such-judge" in said.err
    assert bench.runs() == []
    assert bench.run("--no-grade").run().phases.collect == "complete"


def test_a_dry_run_starts_nothing_and_invents_nothing(bench):
    said = bench.call("--dry-run")
    assert said.code == 0
    document = json.loads(said.out)
    assert document["trials"] == 6
    assert document["estimate"]["run"] is None
    assert document["estimate"]["collectS"] is None
    assert document["estimate"]["unknown"] == ["no finished run of this eval yet"]
    assert bench.runs() == []


def test_an_estimate_is_taken_from_the_latest_run_and_only_for_what_is_as_it_was(bench):
    folder = bench.run()
    found = json.loads(bench.call("--dry-run", "--trials", "4").out)["estimate"]
    means = [variant.metrics["duration_s_mean"] for variant in folder.summary().variants]
    assert found["run"] == folder.run_id
    assert found["programS"] == pytest.approx(12 * sum(means))
    assert found["collectS"] == pytest.approx(12 * sum(means) / 4)
    assert (found["costUsd"], found["judgeCostUsd"]) == (None, 0.0)
    bench.config["variants"][1]["model"] = "other"
    changed = json.loads(bench.call("--dry-run").out)["estimate"]
    assert (changed["programS"], changed["unknown"]) == (None, ["variant b was set up otherwise then"])
    bench.config["variants"][0]["model"] = "other"
    said = bench.call("--no-grade")
    short = folder.run_id[-6:]
    assert f"going by run {short}: time and cost unknown (variants a, b were set up otherwise then)" in said.err


AGENT = """#!/bin/sh
cat > /dev/null
{body}
"""
ANSWER = {"type": "result", "subtype": "success", "result": "ready", "total_cost_usd": 0.0125, "usage": {}}


def agent(bench, body):
    program = bench.home / "agent.sh"
    program.write_text(AGENT.format(body=f"echo asked >> {bench.home}/log\n{body}"))
    program.chmod(0o755)
    (bench.home / "keys.json").write_text(json.dumps({"ANTHROPIC_API_KEY": "a-key-for-nothing"}))
    bench.config |= {"client": "claude-code", "client_options": {"program": str(program)}, "model": "m"}
    return ["--secrets-file", bench.home / "keys.json"]


def test_each_distinct_agent_is_asked_once_and_its_cost_is_said(bench):
    options = agent(bench, f"echo '{json.dumps(ANSWER)}'")
    bench.config["variants"] = [
        {"name": "a"},
        {"name": "b", "model": "n"},
        {"name": "c", "input_template": "{{input}}!"},
    ]
    bench.config["assertions"] = [{"contains_text": "ready"}]
    said = bench.call(*options)
    assert said.code == 0, said.err
    assert "probing 2 agent settings" in said.err
    assert "probe of variants a, c (claude-code, m): answered in" in said.err
    assert "$0.0125" in said.err
    assert bench.asked() == 9 + 2
    [path] = bench.runs()
    assert len(list(path.glob("transcripts/*/*/*.json"))) == 9
    assert bench.call(*options, "--no-probe").code == 0
    assert bench.asked() == 9


def test_an_agent_that_does_not_answer_is_refused_with_its_words(bench):
    options = agent(bench, "echo 'the key was not accepted' >&2; exit 1")
    said = bench.call(*options)
    assert said.code == 2
    assert "probe of variants a, b (claude-code, m)" in said.err
    assert "the key was not accepted" in said.err
    assert bench.asked() == 1
    assert bench.runs() == []
    assert bench.call(*options, "--dry-run").code == 0
    assert bench.asked() == 0


# Adding to a run


def test_more_trials_cases_and_variants_are_added_and_counted_as_a_look(bench):
    bench.with_judge()
    folder = bench.run()
    assert bench.asked() == 6
    bench.cases.append({"id": "new", "input": "x"})
    bench.config["variants"].append({"name": "c"})
    bench.config["trials"] = 2
    said = bench.call("--resume", folder.run_id, "--extend")
    assert said.code == 0, said.err
    assert trials(folder) == {"a": 8, "b": 8, "c": 8}
    assert bench.asked() == 24 - 6, "verdicts of before are kept"
    run, summary = folder.run(), folder.summary()
    assert (run.looks, summary.looks, run.partial) == (1, 1, False)
    assert [found.counts.scored for found in summary.variants] == [8, 8, 8]
    assert "extended 1 time after a look" in " ".join(said.out.split())
    assert folder.cases().ids == ["c0", "c1", "c2", "new"]
    bench.call("--resume", folder.run_id, "--extend", "--trials", "3")
    assert (folder.run().looks, folder.run().partial) == (2, False)
    assert trials(folder) == {"a": 12, "b": 12, "c": 12}


def test_nothing_to_add_is_no_look(bench):
    folder = bench.run()
    assert bench.call("--resume", folder.run_id, "--extend").code == 0
    assert folder.run().looks is None


def test_adding_to_what_nobody_could_see_is_no_look(bench):
    folder = bench.run("--no-grade")
    bench.config["trials"] = 2
    assert bench.call("--resume", folder.run_id, "--extend", "--no-grade").code == 0
    assert folder.run().looks is None
    assert trials(folder) == {"a": 6, "b": 6}


def test_a_regrade_is_a_look_too(bench):
    folder = bench.run("--no-grade")
    assert call_mst(bench.capsys, "grade", folder.path).code == 0
    bench.config["trials"] = 2
    bench.call("--resume", folder.run_id, "--extend")
    assert folder.run().looks == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda bench: bench.cases[1].update(input="other"), "cases changed: c1"),
        (lambda bench: bench.cases.pop(), "cases are gone: c2"),
        (lambda bench: bench.config["variants"].pop(), "variant 'b' is gone"),
        (lambda bench: bench.config["variants"][1].update(model="m"), "variant 'b': model changed"),
        (lambda bench: bench.config.update(trials=1), "fewer trials than were made"),
        (lambda bench: bench.config.update(assertions=[{"contains_text": "y"}]), "assertions changed"),
        (lambda bench: bench.config.update(pass_threshold=0.5), "pass_threshold was 1 and is 0.5"),
        (lambda bench: bench.config.update(baseline="b"), "the baseline was 'a' and is 'b'"),
    ],
)
def test_nothing_but_additions_is_taken(bench, change, words):
    bench.config["trials"] = 2
    folder = bench.run()
    before = (folder.path / "run.json").read_bytes()
    change(bench)
    said = bench.call("--resume", folder.run_id, "--extend")
    assert said.code == 2
    assert words in said.err
    assert (folder.path / "run.json").read_bytes() == before


def test_an_extension_that_died_is_resumed_like_any_run(bench, monkeypatch):
    folder = bench.run()
    bench.cases.append({"id": "new", "input": "x"})

    class Killed(BaseException):
        """Stands for SIGKILL between the record and the inputs."""

    def dying(*_given):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(mst.cli.running, "write_inputs", dying)
        with pytest.raises(Killed):
            bench.call("--resume", folder.run_id, "--extend")
    assert folder.cases().ids == ["c0", "c1", "c2"]
    said = bench.call("--resume", folder.run_id)
    assert said.code == 0, said.err
    assert folder.cases().ids == ["c0", "c1", "c2", "new"]
    assert (folder.run().looks, trials(folder)) == (1, {"a": 4, "b": 4})


def test_a_resume_takes_neither_changed_cases_nor_other_choices(bench):
    folder = bench.run("--no-grade")
    chosen = bench.call("--resume", folder.run_id, "--case", "c1")
    assert (chosen.code, "say --extend too" in chosen.err) == (2, True)
    bench.cases[0]["input"] = "other"
    changed = bench.call("--resume", folder.run_id)
    assert (changed.code, "the eval's cases changed" in changed.err) == (2, True)


# A part again


def test_cases_that_failed_or_broke_down_make_a_run_of_their_own(bench):
    broken = ["sh", "-c", f"test -e {bench.home}/mended"]
    (bench.home / "f").mkdir()
    (bench.home / "f" / "in").write_text("")
    bench.cases[1]["input"] = "no"
    bench.cases[2] |= {"files": "f", "setup": [broken]}
    first = bench.run(code=3)
    (bench.home / "mended").touch()
    failed = bench.run("--only", "failed", code=0)
    assert failed.cases().ids == ["c1"]
    assert failed.run().selection.only == ["failed"]
    assert failed.run().partial
    shutil.rmtree(failed.path)
    both = bench.run("--only", "errors", "--only", "failed")
    assert both.cases().ids == ["c1", "c2"]
    shutil.rmtree(both.path)
    assert bench.run("--only", "errors", "--case", "c2").cases().ids == ["c2"]
    assert trials(first) == {"a": 3, "b": 3}, "the first run is as it was: a failed answer is never rolled again"


def test_only_needs_a_graded_run_and_something_in_it(bench):
    none = bench.call("--only", "failed")
    assert (none.code, "no graded run of e" in none.err) == (2, True)
    folder = bench.run()
    nothing = bench.call("--only", "errors")
    assert (nothing.code, "no case is left by --only errors" in nothing.err) == (2, True)
    mixed = bench.call("--only", "failed", "--resume", folder.run_id)
    assert mixed.code == 2
    alone = bench.call("--extend")
    assert (alone.code, "name it with --resume" in alone.err) == (2, True)


def test_choices_of_cases_are_kept_in_the_record(bench):
    assert bench.run("--max-cases", "2").cases().ids == ["c0", "c1"]
    sampled = bench.run("--sample", "2", "--seed", "7")
    again = bench.run("--sample", "2", "--seed", "7")
    assert sampled.cases().ids == again.cases().ids
    assert (sampled.run().selection.sample, sampled.run().selection.seed) == (2, 7)


@pytest.mark.parametrize(
    "runner", [[], ["--runner", "process", "--runner-option", "shards=1"]], ids=["local", "process"]
)
def test_fail_fast_starts_no_more_after_the_first_fault(bench, runner):
    bench.config |= {"concurrency": 1, "client": "command", "client_options": {"argv": ["sh", "-c", "exit 3"]}}
    bench.cases = [{"id": f"c{n}", "input": "x"} for n in range(60)]
    said = bench.call("--fail-fast", *runner)
    assert said.code in {1, 3}, said.err
    [path] = bench.runs()
    made = trials(RunFolder(path)).total()
    assert 1 <= made < 60
    assert RunFolder(path).run().phases.collect == "partial"


def test_grading_here_says_how_much_there_is_to_grade(bench):
    said = bench.call()
    assert "6/6 graded" in said.err, said.err
    last = json.loads(bench.call("--json").error_lines[-1])
    assert (last["what"], last["done"], last["planned"]) == ("graded", 6, 6)


def test_a_run_that_broke_down_says_why_and_diagnose_takes_it_unasked(bench, monkeypatch):
    bench.cases[1]["setup"] = [["{{python}}", "-c", "raise SystemExit('no licence here')"]]
    said = bench.call()
    assert said.code == 3, said.err
    assert "mst: the first that broke down: " in said.err
    assert "trial 0: " in said.out
    assert "no licence here" in said.out
    assert f"mst diagnose {bench.runs()[0].name[-6:]}" in said.out
    monkeypatch.chdir(bench.home)
    diagnosed = call_mst(bench.capsys, "diagnose", "--output-dir", "r")
    assert diagnosed.code == 0, diagnosed.err
    assert "no licence here" in diagnosed.out


def test_a_resume_that_is_refused_says_what_changed(bench):
    made = bench.run("--fail-on", "never")
    bench.config["variants"][0]["input_template"] = "please {{input}}"
    bench.cases[2]["input"] = "another"
    said = bench.call("--resume", made.run_id)
    assert (said.code, said.out) == (2, "")
    assert said.error_lines[1:] == ["mst: variant 'a': input_template changed", "mst: cases changed: c2"]
