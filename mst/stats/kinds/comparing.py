"""Kinds that test: paired differences, sign flips, McNemar, the sign test, corrections."""

from __future__ import annotations

from fractions import Fraction

from mst.stats.intervals import MeanEstimate, mean_t
from mst.stats.kinds.estimates import EMPTY, ONE_UNIT, normal_interval
from mst.stats.kinds.registry import Inputs, Result, Table, either
from mst.stats.multiplicity import benjamini_hochberg, bonferroni, holm
from mst.stats.paired import mcnemar, paired_difference, wilcoxon
from mst.stats.preferences import win_rate
from mst.stats.signflip import extreme_patterns, sign_flip, whole_numbers

KINDS = Table()

_SIDE = {"a": "numbers, one per case", "b": "numbers, same cases in the same order"}
_NO_SPREAD = "all differences are equal, or there are fewer than two"


def _sides(inputs: Inputs) -> tuple[list[float], list[float]]:
    inputs.same_length("a", "b")
    return inputs.numbers("a"), inputs.numbers("b")


def _exact_differences(inputs: Inputs) -> list[Fraction]:
    """Differences of the decimals as they were written: 0.3 - 0.2 is exactly 0.1."""
    return [Fraction(repr(a)) - Fraction(repr(b)) for a, b in zip(*_sides(inputs), strict=True)]


@KINDS.add("paired_difference", "mean difference a - b on the same cases, with t and normal intervals", **_SIDE)
def _paired(inputs: Inputs) -> Result:
    found = paired_difference(*_sides(inputs))
    return {
        "n": found.mean.n,
        "mean_diff": either(found.mean.mean, EMPTY),
        "se_paired": either(found.mean.se, ONE_UNIT),
        "ci95_normal": normal_interval(found.mean),
        "ci95_t": found.mean.interval,
        "t": either(found.t, _NO_SPREAD),
        "p_t_two_sided": either(found.p_t, _NO_SPREAD),
        "z": either(found.t, _NO_SPREAD),
        "p_z_two_sided": either(found.p_z, _NO_SPREAD),
        "se_unpaired": either(found.se_unpaired, ONE_UNIT),
        "correlation": either(found.correlation, "a side has no spread"),
    }


@KINDS.add(
    "paired_difference_clustered",
    "mean difference a - b with families as units",
    **_SIDE,
    clusters="the family of each case; null for none",
)
def _paired_clustered(inputs: Inputs) -> Result:
    a, b = _sides(inputs)
    differences = [x - y for x, y in zip(a, b, strict=True)]
    estimate: MeanEstimate = mean_t(differences, inputs.families("clusters", len(a)))
    return {
        "mean_diff": either(estimate.mean, EMPTY),
        "se_paired_naive": either(mean_t(differences).se, ONE_UNIT),
        "se_paired_cr1": either(estimate.se, ONE_UNIT),
        "clusters": estimate.n_units,
        "ci95_t_cr1": estimate.interval,
    }


@KINDS.add(
    "paired_difference_matching",
    "mean difference of the cases that both sides have; the others are listed",
    a="object: case ID -> number or null",
    b="object: case ID -> number or null",
)
def _matching(inputs: Inputs) -> Result:
    a, b = (
        {
            case: inputs.as_number(value, f"{name}.{case}")
            for case, value in inputs.mapping(name).items()
            if value is not None
        }
        for name in ("a", "b")
    )
    both = [case for case in a if case in b]
    return {
        "n_pairs": len(both),
        "mean_diff": either(mean_t([a[case] - b[case] for case in both]).mean, "no case is on both sides"),
        "only_in_a": [case for case in a if case not in b],
        "only_in_b": [case for case in b if case not in a],
    }


@KINDS.add(
    "mcnemar_exact",
    "McNemar's exact test, two-sided",
    only_a_pass="cases that only a passed",  # noqa: S106 - a count of passed cases
    only_b_pass="cases that only b passed",  # noqa: S106 - a count of passed cases
)
def _mcnemar(inputs: Inputs) -> Result:
    found = mcnemar(inputs.integer("only_a_pass", 0, 1_000_000), inputs.integer("only_b_pass", 0, 1_000_000))
    fraction = f"{found.numerator}/{found.denominator}" if found.denominator < 10**300 else None
    return {
        "p_exact": found.p_exact,
        "p_mid": found.p_mid,
        "p_exact_fraction": either(fraction, "too long to print"),
    }


@KINDS.add(
    "mcnemar_exact_pairs",
    "rates of two sides on the same cases with McNemar's exact test",
    counts="{both, only_a, only_b, neither}: number of cases",
)
def _mcnemar_pairs(inputs: Inputs) -> Result:
    counts = inputs.mapping("counts")
    names = ("both", "only_a", "only_b", "neither")
    if set(counts) != set(names):
        raise inputs.fail("counts", f"must have exactly {', '.join(names)}")
    both, only_a, only_b, neither = (inputs.as_integer(counts[name], f"counts.{name}", 0, 1_000_000) for name in names)
    n = both + only_a + only_b + neither
    # Sample variance of differences that are 1, -1 or 0.
    square = (only_a + only_b - (only_a - only_b) ** 2 / n) / (n - 1) if n > 1 else None
    return {
        "n": n,
        "acc_a": either((both + only_a) / n if n else None, "there is no case"),
        "acc_b": either((both + only_b) / n if n else None, "there is no case"),
        "diff": either((only_a - only_b) / n if n else None, "there is no case"),
        "p_exact": mcnemar(only_a, only_b).p_exact,
        "se_diff": either((square / n) ** 0.5 if square is not None else None, "needs at least two cases"),
    }


@KINDS.add(
    "sign_test", "win rate with ties as half; sign test without ties", wins="count", losses="count", ties="count"
)
def _sign_test(inputs: Inputs) -> Result:
    found = win_rate(*(inputs.integer(name, 0, 1_000_000) for name in ("wins", "losses", "ties")))
    return {
        "n": found.n,
        "decisive": found.decisive,
        "win_rate_ties_half": either(found.win_rate, "there is no case"),
        "win_rate_decisive": either(found.win_rate_decisive, "no case is decisive"),
        "net_preference": either(found.net_preference, "there is no case"),
        "p_sign_two_sided": found.p_sign,
        "wilson95_decisive": found.interval_decisive,
        "se_ties_half": either(found.se, "needs at least two cases"),
    }


@KINDS.add("sign_flip_permutation", "sign-flip test of the mean difference a - b, two-sided", **_SIDE)
def _sign_flip_permutation(inputs: Inputs) -> Result:
    differences = whole_numbers(_exact_differences(inputs))
    counted = extreme_patterns(differences)
    if counted is not None and counted[1] < 1 << 1000:
        extreme, total = counted
        return {"extreme": extreme, "total": total, "p_two_sided": extreme / total}
    flips = sign_flip(differences)
    reason = "too many sign patterns to print their number"
    result: Result = {
        "extreme": either(None, reason),
        "total": either(None, reason),
        "p_two_sided": min(1.0, 2 * min(flips.p_better, flips.p_worse)),
    }
    return {**result, "approximate": True} if flips.method == "normal" else result


@KINDS.add("wilcoxon_signed_rank", "Wilcoxon's signed-rank test of a - b, two-sided and exact", **_SIDE)
def _wilcoxon(inputs: Inputs) -> Result:
    statistic, p = wilcoxon(_exact_differences(inputs))
    return {"statistic": statistic, "p_exact": p}


@KINDS.add(
    "multiple_comparisons",
    "p values adjusted for their number: Holm, Benjamini-Hochberg, Bonferroni",
    p="p values",
    alpha_opt="level of the rejections, 0.05 if left out",
)
def _multiple(inputs: Inputs) -> Result:
    p = [inputs.as_number(value, f"p[{index}]", 0, 1) for index, value in enumerate(inputs.items("p"))]
    alpha = inputs.inside("alpha", 0, 1, 0.05)
    stepped_down, stepped_up = holm(p), benjamini_hochberg(p)
    return {
        "holm": stepped_down,
        "bh": stepped_up,
        "bonferroni": bonferroni(p),
        "reject_holm": [value <= alpha for value in stepped_down],
        "reject_bh": [value <= alpha for value in stepped_up],
    }
