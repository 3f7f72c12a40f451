from __future__ import annotations

import pytest

from mst.grade.checks import score_called
from mst.judges.python_call import Called
from mst.model.transcript import Event
from mst.testing.judge import make_subject


def score(value=None, **called):
    return score_called(Called(value=value, **called))


def check(name: str, passed: bool, **fields):
    return {"name": name, "passed": passed, **fields}


def test_every_graded_check_must_pass():
    good = score({"checks": [check("a", True), check("b", True, detail="fine")]})
    assert (good.passed, good.details) == (True, "2 graded checks passed")
    bad = score({"checks": [check("a", True), check("b", False)]})
    assert (bad.passed, bad.details) == (False, "failed: b")
    assert [each.name for each in bad.checks or []] == ["a", "b"]


def test_ungraded_checks_are_listed_and_decide_nothing():
    found = score({"checks": [check("a", True), check("info", False, graded=False)]})
    assert found.passed
    assert found.checks is not None
    assert found.checks[1].graded is False


def test_the_scorers_own_no_overrules_but_its_yes_does_not():
    assert not score({"passed": False, "checks": [check("a", True)]}).passed
    assert not score({"passed": True, "checks": [check("a", False)]}).passed
    assert score({"passed": True, "checks": []}).passed


def test_without_anything_graded_it_counts_neither_way():
    found = score({"checks": [check("info", False, graded=False)]})
    assert found.graded is False
    assert not found.counts


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        {},
        {"checks": None},
        {"checks": [{"name": "a"}]},
        {"checks": [check("a", "yes")]},
        {"checks": [check("a", 1)]},
        {"checks": [check("", True)]},
        {"checks": [check("a", True), check("a", False)]},
        {"checks": [check("a", True, details="typo")]},
        {"checks": [], "pass": True},
        {"checks": [], "metrics": {"m": "many"}},
        {"checks": [], "judgments": [{"score": 0.5}]},
        {"checks": [], "judgments": [{"name": "j", "score": 5}]},
    ],
)
def test_an_invalid_return_is_an_error_and_never_a_fail(value):
    found = score(value)
    assert found.error is not None
    assert not found.is_verdict


def test_metrics_keep_their_nulls():
    assert score({"checks": [], "metrics": {"a": 1, "b": None}}).metrics == {"a": 1.0, "b": None}


def test_valid_judgments_are_kept_whatever_happens_later():
    kept = {"name": "tone", "score": 0.5, "modelUsed": "m"}
    thrown = score(error="ValueError: late", judgments=[kept, {"score": 1}])
    assert thrown.error == "ValueError: late"
    assert thrown.judgments == [kept]
    invalid = score({"checks": "none", "judgments": [kept]})
    assert invalid.error
    assert invalid.judgments == [kept]


def test_what_was_asked_for_in_vain_defers_whatever_was_returned():
    found = score({"checks": [check("a", True)]}, missing=["query"])
    assert (found.passed, found.deferred, found.error) == (False, ["query"], None)
    assert not found.counts


SEES = """
import json, os
from pathlib import Path

def check(ctx):
    print("noise on stdout"); os.write(2, b"noise on stderr")
    transcript = json.loads(ctx.transcript)
    result = ctx.exec(["{{python}}", "-c", "print(open('mod.py').read(), end='')"])
    (ctx.workspace / "__pycache__").mkdir()
    facts = {
        "expected": ctx.case["expected"] == {"answer": "the answer"},
        "identity": (ctx.variant, ctx.trial) == ("b", 2),
        "workspace": isinstance(ctx.workspace, Path) and Path.cwd() == ctx.workspace.resolve(),
        "file": (ctx.workspace / "mod.py").read_text() == "x = 1\\n",
        "answer": ctx.final_text == "the answer" and ctx.diff == "+x",
        "transcript": transcript["events"][0]["name"] == "git" and not ctx.truncated,
        "exec": (result.exit_code, result.stdout, result.timed_out) == (0, "x = 1\\n", False),
        "environment": "SECRET_OF_THE_HOST" not in os.environ and "PATH" in os.environ,
    }
    ctx.add_judgment(name="tone", score=0.5)
    checks = [{"name": name, "passed": bool(passed)} for name, passed in facts.items()]
    return {"checks": checks, "metrics": {"files": len(os.listdir())}}
"""


def test_the_scorer_sees_the_trial_and_disturbs_nothing(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    events = [Event(kind="tool_call", name="git")]
    subject = make_subject(tmp_path, files={"mod.py": "x = 1\n"}, diff="+x", variant="b", trial=2, events=events)
    found = bench.trial(subject, bench.checks(SEES)).scores["checks"]
    assert (found.error, found.details) == (None, "8 graded checks passed")
    assert found.judgments == [{"name": "tone", "score": 0.5}]
    assert found.metrics == {"files": 2.0}
    assert sorted(path.name for path in (tmp_path / "b" / "2").iterdir()) == ["mod.py"]
    assert bench.left() == []


def test_a_long_transcript_is_cut_and_says_so(bench, tmp_path):
    source = "def check(ctx): return {'passed': ctx.truncated and len(ctx.transcript) == 131072, 'checks': []}"
    events = [Event(kind="tool_call", name="read", output="x" * 200_000)]
    assert bench.trial(make_subject(tmp_path, events=events), bench.checks(source)).scores["checks"].passed


def test_an_error_names_its_line_in_the_scorer(bench, tmp_path):
    source = "def check(ctx):\n    raise ValueError(f'no luck in {ctx.workspace}')\n"
    found = bench.trial(make_subject(tmp_path), bench.checks(source)).scores["checks"]
    assert found.error == "ValueError: no luck in workspace (checks.py:2)"
