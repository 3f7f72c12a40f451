"""Every reference vector, and what `mst stats` says to wrong and undefined inputs."""

import json
import math
from pathlib import Path

import pytest

from mst.errors import UsageError
from mst.stats import kinds

VECTORS = json.loads((Path(__file__).parent / "vectors" / "statistics.json").read_text())["vectors"]


def assert_close(found, expected, tolerance, place=""):
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in found, f"{place}.{key} is missing"
            assert_close(found[key], value, tolerance, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for index, value in enumerate(expected):
            assert_close(found[index], value, tolerance, f"{place}[{index}]")
    elif isinstance(expected, float) or (isinstance(expected, int) and not isinstance(expected, bool)):
        assert not isinstance(found, bool), place
        assert math.isclose(found, expected, rel_tol=0, abs_tol=tolerance), f"{place}: {found} is not {expected}"
    else:
        assert found == expected, place


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_vector(vector):
    found = kinds.compute(vector["kind"], vector["inputs"])

    assert_close(found, vector["expected"], vector["tol"])
    json.dumps(found, allow_nan=False)


def test_every_kind_has_a_vector_and_every_vector_a_kind():
    assert {kind["kind"] for kind in kinds.describe()} == {vector["kind"] for vector in VECTORS}


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_fields_of_a_vector_are_those_that_describe_names(vector):
    described = {kind["kind"]: kind["inputs"] for kind in kinds.describe()}[vector["kind"]]

    assert set(vector["inputs"]) <= {name.removesuffix("?") for name in described}
    assert {name for name in described if not name.endswith("?")} <= set(vector["inputs"])


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
@pytest.mark.parametrize("wrong", [None, "text", math.nan, -math.inf, [[None, {}]], {"x": {}}, -1, 10**400, True])
def test_a_wrong_value_in_any_field_is_an_error_that_names_it_or_a_result(vector, wrong):
    for field in vector["inputs"]:
        message = ""
        try:
            found = kinds.compute(vector["kind"], {**vector["inputs"], field: wrong})
        except UsageError as error:
            message = str(error)
        else:
            json.dumps(found, allow_nan=False)
        if message:
            assert message.startswith(f"{vector['kind']}: ")
            assert any(name in message for name in vector["inputs"]), f"{message} names no field"
            assert "\n" not in message


@pytest.mark.parametrize(
    ("kind", "inputs", "path"),
    [
        ("mean_se", {"scores": []}, "mean"),
        ("mean_se", {"scores": [1.0]}, "se"),
        ("mean_se", {"scores": [0.5, 0.5]}, "ci95_t"),
        ("clustered_se", {"scores": [1, 0], "clusters": ["a", "a"]}, "se_cr1"),
        ("paired_difference", {"a": [1, 2], "b": [0, 1]}, "t"),
        ("paired_difference_matching", {"a": {"x": 1}, "b": {"y": 1}}, "mean_diff"),
        ("pass_k", {"n": 3, "c": 1, "k": [4]}, "4.pass_at_k"),
        ("pass_k_suite", {"cases": [{"n": 2, "c": 1}], "k": [3]}, "3.pass_hat_k"),
        ("proportion_ci", {"successes": 0, "n": 0}, "wilson"),
        ("two_proportions_unpaired", {"a": [0, 0], "b": [1, 2]}, "newcombe95"),
        ("mcnemar_exact_pairs", {"counts": {"both": 0, "only_a": 0, "only_b": 0, "neither": 0}}, "acc_a"),
        ("sign_test", {"wins": 0, "losses": 0, "ties": 3}, "win_rate_decisive"),
        ("cohen_kappa", {"rater1": ["x", "x"], "rater2": ["x", "x"]}, "kappa"),
        ("cohen_kappa_weighted", {"rater1": [1], "rater2": [1], "scale": [1, 2]}, "linear"),
        ("fleiss_kappa", {"items": [["a", "a"], ["a", "a"]]}, "kappa"),
        ("krippendorff_alpha", {"raters": [["x", "y"], ["x", "z"]]}, "ordinal"),
        ("krippendorff_alpha", {"raters": [[-1, 2], [1, 2]]}, "ratio"),
        ("krippendorff_alpha", {"raters": [[1, None], [None, 2]]}, "nominal"),
        ("position_bias", {"records": []}, "consistency_rate"),
        ("repetition_stability", {"verdicts": [[]]}, "unanimous"),
        ("bradley_terry", {"systems": ["A", "B"], "wins": {"A>B": 3}}, "log_strength"),
        ("bradley_terry", {"systems": ["A", "B", "C", "D"], "wins": {"A>B": 3, "B>A": 1, "C>D": 1}}, "elo_1000"),
        ("mde", {"diffs": [0.1]}, "mde"),
        ("error_policy", {"passed": 0, "failed": 0, "errored": 2}, "exclude"),
        (
            "judge_corrected_rate",
            {"observed": 0.5, "n": 9, "tpr": 0.5, "n_pos": 9, "tnr": 0.4, "n_neg": 9},
            "corrected",
        ),
        ("percentiles", {"values": []}, "p50"),
        ("wilson_effective", {"trials": [[None], []]}, "mean"),
        ("sign_flip_one_sided", {"candidate": [[None]], "baseline": [[1]]}, "mean_difference"),
        ("decision", {"baseline": "b", "variants": {"b": [[1]], "x": [[]]}}, "x.difference"),
        ("regressions", {"cases": [{"baseline": [0, 0], "candidate": [1, 1]}]}, "p[0]"),
    ],
)
def test_undefined_is_null_with_a_reason(kind, inputs, path):
    found = kinds.compute(kind, inputs)

    assert found["undefined"][path]
    value = found
    for step in path.replace("[", ".").replace("]", "").split("."):
        value = value[int(step)] if isinstance(value, list) else (value[step] if value is not None else None)
    assert value is None


def test_null_scores_are_left_out_and_counted():
    found = kinds.compute("mean_se", {"scores": [1, None, 0, 1]})

    assert (found["n"], found["missing"]) == (3, 1)
    assert found["mean"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        ("nonsense", {}, "unknown kind 'nonsense'"),
        ("mean_se", {}, "'scores' is missing"),
        ("mean_se", {"scores": [1], "score": 2}, "unknown field 'score'"),
        ("mean_se", {"scores": [1, "x"]}, r"scores\[1\]: must be a number"),
        ("paired_difference", {"a": [1], "b": [1, 2]}, "same length"),
        ("pass_k", {"n": 3, "c": 4, "k": [1]}, "c: must be 0 to 3"),
        ("proportion_ci", {"successes": 1, "n": 2, "level": 1}, "level: must lie between 0 and 1"),
        ("multiple_comparisons", {"p": [0.5, 1.5]}, r"p\[1\]"),
        ("sign_test_n", {"p_win": 0.5}, "p_win"),
        ("sign_test_n", {"p_win": 0.5001}, "100,000 decisive cases"),
        ("bootstrap_mean", {"scores": [0.5] * 100_000, "B": 100_000, "seed": 1}, "B: 100,000 resamples"),
        ("bradley_terry", {"systems": ["A", "B"], "wins": {"A>C": 1}}, "wins.A>C"),
        ("decision", {"baseline": "z", "variants": {"x": []}}, "baseline: must be one of the variants: x"),
        ("decision", {"baseline": "b", "variants": {"b": [[1]], "x": [[2]]}}, r"variants.x\[0\]\[0\]: must be 0, 1"),
        ("n_required", {**dict.fromkeys(("omega2", "sigma2_a", "sigma2_b", "delta"), 0), "k_a": 1, "k_b": 1}, "delta"),
    ],
)
def test_wrong_inputs_are_named(kind, inputs, words):
    with pytest.raises(UsageError, match=words):
        kinds.compute(kind, inputs)


def test_ties_are_half_a_win_for_each():
    halves = kinds.compute("bradley_terry", {"systems": ["A", "B"], "wins": {"A>B": 3}, "ties": {"A=B": 2}})

    assert halves["log_strength"]["A"] - halves["log_strength"]["B"] == pytest.approx(math.log(4))


def test_the_reference_page_lists_every_kind_with_its_fields():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "statistics.md").read_text()

    for kind in kinds.describe():
        fields = "<br>".join(f"`{field}`: {meaning}" for field, meaning in kind["inputs"].items())
        assert f"| `{kind['kind']}` | {kind['about']} | {fields} |" in page.splitlines()
