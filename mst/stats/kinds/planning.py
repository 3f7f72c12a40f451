"""Kinds for planning: how much data is enough."""

from __future__ import annotations

import math

from mst.stats import power
from mst.stats.kinds.registry import Inputs, Result, Table, either
from mst.stats.summaries import variance

KINDS = Table()

_LEVELS = {"alpha_opt": "two-sided level, 0.05 if left out", "power_opt": "0.8 if left out"}
_PARTS = {
    "omega2": "variance between cases of the true difference",
    "sigma2_a": "variance between trials of one case, side a",
    "sigma2_b": "the same, side b",
    "k_a": "trials a case, side a",
    "k_b": "trials a case, side b",
}


def _alpha(inputs: Inputs) -> float:
    return inputs.inside("alpha", 0, 1, 0.05)


def _power(inputs: Inputs) -> float:
    return inputs.inside("power", 0, 1, 0.8)


def _spread(inputs: Inputs) -> float:
    omega2, sigma2_a, sigma2_b = (inputs.number(name, 0) for name in ("omega2", "sigma2_a", "sigma2_b"))
    return power.planned_variance(omega2, sigma2_a, sigma2_b, inputs.integer("k_a", 1), inputs.integer("k_b", 1))


@KINDS.add(
    "n_required", "cases needed to find a difference", **_PARTS, delta="the true difference to be found", **_LEVELS
)
def _n_required(inputs: Inputs) -> Result:
    delta = inputs.number("delta")
    if not delta:
        raise inputs.fail("delta", "must not be 0: no number of cases finds a difference that is not there")
    n = power.units_required(_spread(inputs), delta, _alpha(inputs), _power(inputs))
    return {"n": n, "n_ceil": math.ceil(n)}


@KINDS.add("mde", "smallest difference that a finished comparison could find", diffs="difference per case", **_LEVELS)
def _mde(inputs: Inputs) -> Result:
    differences = inputs.numbers("diffs")
    spread = variance(differences)
    effect = None
    if spread is not None:
        effect = power.minimum_effect(spread, len(differences), _alpha(inputs), _power(inputs))
    return {"mde": either(effect, "needs at least two cases")}


@KINDS.add("mde_planned", "smallest difference that a planned comparison can find", **_PARTS, n="cases", **_LEVELS)
def _mde_planned(inputs: Inputs) -> Result:
    return {"mde": power.minimum_effect(_spread(inputs), inputs.integer("n", 1), _alpha(inputs), _power(inputs))}


@KINDS.add(
    "sign_test_power",
    "power and actual size of a two-sided sign test",
    decisive="cases that are not ties",
    p_win="true share of wins among them",
    alpha_opt="two-sided level, 0.05 if left out",
)
def _sign_test_power(inputs: Inputs) -> Result:
    reached, size = power.sign_test_power(
        inputs.integer("decisive", 0, 10_000_000), inputs.number("p_win", 0, 1), _alpha(inputs)
    )
    return {"power": reached, "actual_size": size}


@KINDS.add(
    "sign_test_n",
    "decisive cases that a sign test needs",
    p_win="true share of wins among decisive cases",
    **_LEVELS,
    rule_opt="a note; not used",
)
def _sign_test_n(inputs: Inputs) -> Result:
    return {"n": power.sign_test_n(inputs.number("p_win", 0, 1), _alpha(inputs), _power(inputs))}


@KINDS.add(
    "min_discordant",
    "fewest decisive cases with which a two-sided sign test can reach the level",
    alpha_opt="two-sided level, 0.05 if left out",
)
def _min_discordant(inputs: Inputs) -> Result:
    return {"n": power.min_decisive(_alpha(inputs))}
