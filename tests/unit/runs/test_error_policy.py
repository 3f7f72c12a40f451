from __future__ import annotations

from mst.report.words import warnings
from mst.runs.locate import regrades_of
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval

JUDGE = """
import json, sys
case = json.load(sys.stdin)["case"]["id"]
if case == "case-0":
    sys.exit(1)
print(json.dumps({"score": 1 if case == "case-1" else 0}))
"""


def test_trials_without_a_score_are_left_out_and_the_bounds_are_told(tmp_path):
    judge = {"name": "j", "command": {"argv": ["{{python}}", "j.py"], "files": ["j.py"]}}
    config = write_echo_eval(tmp_path / "eval", assertions=[], judges=[judge])
    (tmp_path / "eval" / "j.py").write_text(JUDGE)
    source = collect_run(config, tmp_path / "results")
    grade_here(source, tmp_path / "scratch")
    [regrade] = regrades_of(source)
    policy = regrade.summary().error_policy["plain"]
    assert (policy.without_score, policy.policy) == (1, "exclude")
    assert (policy.exclude, policy.count_as_fail, policy.lower, policy.upper) == (1 / 3, 0.25, 0.25, 0.5)
    text = " ".join(warnings(regrade.run(), regrade.summary()))
    assert (
        "plain: 1 trial without a score, left out of its rate (33.3%); as failures 25.0%, bounds 25.0% to 50.0%."
        in text
    )


def test_with_all_scores_nothing_is_said(tmp_path):
    source = collect_run(write_echo_eval(tmp_path / "eval"), tmp_path / "results")
    grade_here(source, tmp_path / "scratch")
    [regrade] = regrades_of(source)
    assert regrade.summary().error_policy == {}
    assert regrade.summary().health == []
