"""Judges that are planted to be bad are each named by `mst judges assess`, through the command line."""

from __future__ import annotations

import json
import re
import secrets

import pytest

from mst.runs.locate import regrades_of
from mst.testing.commandline import run_mst
from mst.testing.modelscript import Call, Reply, preference, verdict
from mst.testing.modelserver import model_server
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval

PART = re.compile(r"(response|first|second):\n<data-\w+>\n(.*?)\n</data-", re.DOTALL)


def script(call: Call) -> Reply:
    """The model's name says how it judges."""
    parts, coin = dict(PART.findall(call.prompt)), secrets.randbelow(2)
    if "first" in parts:
        texts = [parts["first"], parts["second"]]
        good = [text.startswith("please") for text in texts]
        says = {
            "first": "first",
            "long": "first" if len(texts[0]) > len(texts[1]) else "second" if len(texts[1]) > len(texts[0]) else "tie",
            "random": ("first", "second")[coin],
            "well": "tie" if good[0] == good[1] else ("second", "first")[good[0]],
        }
        return preference(says[call.model], strength=1)
    text = parts["response"].replace("(no answer)", "")
    return verdict({
        "always": 1.0,
        "long": min(1, len(text) / 1000),
        "random": float(coin),
        "vain": 1.0 if "vain" in text else 0.5 if text else 0.0,
        "well": float(text.startswith("please")),
    }[call.model])  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    home = tmp_path_factory.mktemp("assess")
    with model_server(script) as server:

        def judge(kind):
            return {"name": kind, "rubric": {"model": kind, "base_url": server.openai_url}}

        config = write_echo_eval(
            home / "eval",
            cases=20,
            assertions=[],
            concurrency=8,
            judges=[judge(kind) for kind in ("always", "long", "random", "vain", "well")],
            pairwise_judges=[judge(kind) for kind in ("first", "long", "random", "well")],
        )
        source = collect_run(config, home / ".mst-results")
        grade_here(source, home / "scratch")
        yield home, source


@pytest.fixture(scope="module")
def assessed(stored):
    home, source = stored
    said = run_mst("judges", "assess", source.path, "--stability", "--bias", "--sample", "12", "--json", cwd=home)
    assert said.code == 0, said.err
    assert "calls of judges" in said.err
    progress = json.loads(said.error_lines[-1])
    assert (progress["what"], progress["done"]) == ("asked", progress["planned"])
    found = {}
    for one in json.loads(said.out)["assessments"]:
        found.setdefault(one["grader"], {})[one["probe"]] = one.get("finding")
    return found


@pytest.mark.parametrize(
    ("judge", "probe", "says"),
    [
        ("pairwise.first", "order", "prefers the first place"),
        ("pairwise.long", "length", "prefers long answers"),
        ("pairwise.random", "stability", "flips"),
        ("judge.always", "empty", "always passes"),
        ("judge.long", "length", "prefers long answers"),
        ("judge.random", "stability", "flips"),
        ("judge.vain", "self_preference", "prefers answers under its own name"),
    ],
)
def test_each_bad_judge_is_named(assessed, judge, probe, says):
    assert assessed[judge][probe].startswith(says)


@pytest.mark.parametrize("judge", ["judge.well", "pairwise.well"])
def test_a_judge_that_looks_at_the_matter_is_not_named(assessed, judge):
    assert set(assessed[judge].values()) == {None}


def test_a_random_pairwise_judge_decides_where_there_is_nothing_to_decide(assessed):
    assert "identical answers" in assessed["pairwise.random"]["order"]


def test_the_run_itself_names_those_that_its_verdicts_give_away(stored):
    _, source = stored
    [regrade] = regrades_of(source)
    kinds = {(found.grader, found.kind) for found in regrade.summary().health}
    assert {("judge.always", "always_passes"), ("pairwise.first", "prefers_first")} <= kinds
    assert ("pairwise.long", "prefers_longer") in kinds
    assert ("pairwise.random", "inconsistent") in kinds
    assert not any(grader in ("judge.well", "pairwise.well") and kind != "prefers_longer" for grader, kind in kinds)


def test_labels_of_people_give_agreement_and_corrected_rates(stored):
    home, source = stored
    [regrade] = regrades_of(source)
    labels = home / "labels.csv"
    rows = [
        f"{variant},case-{n},{'yes' if variant == 'polite' else 'no'}"
        for n in range(20)
        for variant in ("plain", "polite")
    ]
    labels.write_text("variant,case,pass\n" + "\n".join(rows) + "\n")
    said = run_mst("judges", "assess", regrade.run_id, "--calibrate", labels, "--json", cwd=home)
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert document["assessments"] is None
    found = {one["grader"]: one for one in document["calibration"]}
    assert (found["judge.well"]["kappa"], found["judge.well"]["tpr"], found["judge.well"]["tnr"]) == (1, 1, 1)
    assert found["judge.well"].get("finding") is None
    assert found["judge.well"]["rates"]["polite"]["corrected"] == 1
    assert found["judge.always"]["finding"].startswith("always passes")
    assert found["judge.random"]["finding"].startswith("agrees little")
    text = run_mst("judges", "assess", regrade.run_id, "--calibrate", labels, cwd=home).out
    assert "40 of 40 labels agree" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no label in it"),
        ("variant,case,pass\nplain,case-1,maybe\n", "labels.csv:2: pass"),
        ("variant,pass\nplain,yes\n", "labels.csv:2: case"),
        ("variant,case,pass\nnobody,case-1,yes\n", "no label is of a trial"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused_with_the_line(stored, tmp_path, text, says):
    home, source = stored
    (tmp_path / "labels.csv").write_text(text)
    said = run_mst("judges", "assess", source.path, "--calibrate", tmp_path / "labels.csv", cwd=home)
    assert said.code == 2
    assert says in said.err


def test_one_judge_by_name_and_a_name_that_is_not_there(stored):
    home, source = stored
    options = ("--stability", "--sample", "2", "--times", "2")
    said = run_mst("judges", "assess", source.path, *options, "--judge", "well", "--json", cwd=home)
    assert {one["grader"].partition(".")[2] for one in json.loads(said.out)["assessments"]} == {"well"}
    said = run_mst("judges", "assess", source.path, *options, "--judge", "nobody", cwd=home)
    assert said.code == 2
    assert "no such judge" in said.err


def test_the_list_of_judges(stored):
    home, _ = stored
    said = run_mst("judges", "--json", cwd=home)
    assert {"rubric", "agentic", "panel"} <= set(json.loads(said.out)["judges"])
    assert "cheaper" in run_mst("judges", cwd=home).out
