"""Kinds that estimate: means, standard errors, rates and their intervals, repeats, resampling, percentiles."""

from __future__ import annotations

from dataclasses import replace

from mst.stats.bounds import error_bounds
from mst.stats.cases import TrialCounts, unit_sums
from mst.stats.intervals import (
    Interval,
    MeanEstimate,
    clopper_pearson,
    cluster_se,
    mean_t,
    newcombe,
    pass_rate,
    wilson,
    zero_failures_bound,
)
from mst.stats.kinds.registry import Inputs, Result, Table, either
from mst.stats.repeats import over_cases, pass_at_k, pass_hat_k, plug_in
from mst.stats.special import two_sided_z
from mst.stats.summaries import nested_trials, percentile

KINDS = Table()

EMPTY = "there is no value"
ONE_UNIT = "needs at least two units"
_MAX_DRAWS = 100_000
_MAX_CELLS = 200_000_000
_SCORES = "numbers, one per case; null is a missing score and is left out"


def normal_interval(estimate: MeanEstimate) -> Interval:
    """Mean +- z x SE at 95%, undefined where the t-interval is."""
    if estimate.mean is None or not estimate.se:
        return replace(estimate.interval, low=None, high=None)
    reach = two_sided_z(0.95) * estimate.se
    return Interval(estimate.mean - reach, estimate.mean + reach, 0.95)


def with_missing(result: Result, missing: int) -> Result:
    """Say how many values were null, if any were."""
    return {**result, "missing": missing} if missing else result


@KINDS.add("mean_se", "mean with its standard error and 95% intervals", scores=_SCORES)
def _mean_se(inputs: Inputs) -> Result:
    estimate = mean_t(inputs.numbers_or_null("scores"))
    result = {
        "n": estimate.n,
        "mean": either(estimate.mean, EMPTY),
        "se": either(estimate.se, ONE_UNIT),
        "ci95_normal": normal_interval(estimate),
        "ci95_t": estimate.interval,
    }
    return with_missing(result, estimate.missing)


@KINDS.add(
    "clustered_se",
    "mean with standard errors that take families (clusters) into account; CR1 is the one to report",
    scores=_SCORES,
    clusters="the family of each score; null for none",
)
def _clustered_se(inputs: Inputs) -> Result:
    scores = inputs.numbers_or_null("scores")
    families = inputs.families("clusters", len(scores))
    estimate = mean_t(scores, families)
    kept = [index for index, score in enumerate(scores) if score is not None]
    values = [score for score in scores if score is not None]
    naive, n = cluster_se(values)
    cr0 = miller = effect = effective = None
    if estimate.se is not None and naive is not None and estimate.mean is not None:
        residuals = [value - estimate.mean for value in values]
        squares = sum(residual * residual for residual in residuals)
        between = sum(total * total for total in unit_sums(residuals, [families[index] for index in kept]))
        cr0 = between**0.5 / n
        # A clustered variance can be less than nothing when the members of families pull apart.
        miller = max(0.0, naive * naive + (between - squares) / n**2) ** 0.5
        if naive and estimate.se:
            effect = (estimate.se / naive) ** 2
            effective = n / effect
    result = {
        "n": n,
        "clusters": estimate.n_units,
        "mean": either(estimate.mean, EMPTY),
        "se_naive": either(naive, "needs at least two values"),
        "se_cr0": either(cr0, ONE_UNIT),
        "se_cr1": either(estimate.se, ONE_UNIT),
        "se_miller": either(miller, ONE_UNIT),
        "design_effect_cr1": either(effect, "there is no spread"),
        "n_effective_cr1": either(effective, "there is no spread"),
        "ci95_t_cr1": estimate.interval,
    }
    return with_missing(result, estimate.missing)


@KINDS.add(
    "nested_trials", "spread of repeated trials, between and within cases", trials="object: case -> list of scores"
)
def _nested_trials(inputs: Inputs) -> Result:
    cases = [
        [inputs.as_number(value, f"trials.{name}[{index}]") for index, value in enumerate(values)]
        for name, trials in inputs.mapping("trials").items()
        if (values := inputs.as_items(trials, f"trials.{name}", 1))
    ]
    if not cases:
        raise inputs.fail("trials", "must have at least one case")
    nested = nested_trials(cases)
    return {
        "mean": nested.mean,
        "se_between_cases": either(nested.se_between_cases, "needs at least two cases"),
        "se_naive_rows": either(nested.se_naive_rows, "needs at least two trials"),
        "se_cr1_by_case": either(nested.se_cr1_by_case, "needs at least two cases"),
        "within_case_variance_mean": either(nested.within_case_variance, "no case has two trials"),
        "variance_of_case_means": either(nested.variance_of_case_means, "needs at least two cases"),
    }


def _ks(inputs: Inputs) -> list[int]:
    return [inputs.as_integer(k, f"k[{index}]", 1, 10_000) for index, k in enumerate(inputs.items("k", 1))]


@KINDS.add(
    "pass_k",
    "unbiased pass@k and pass^k of one case",
    n="trials with a verdict",
    c="those that passed",
    k="list of k",
)
def _pass_k(inputs: Inputs) -> Result:
    n = inputs.integer("n", 0, 100_000)
    passed = inputs.integer("c", 0, n)
    reason = f"k is more than the {n} trials"
    return {
        str(k): {
            "pass_at_k": either(pass_at_k(n, passed, k), reason),
            "pass_hat_k": either(pass_hat_k(n, passed, k), reason),
        }
        for k in _ks(inputs)
    }


@KINDS.add("pass_k_suite", "pass@k and pass^k, mean over cases", cases="list of {n: trials, c: passed}", k="list of k")
def _pass_k_suite(inputs: Inputs) -> Result:
    cases = []
    for index, case in enumerate(inputs.items("cases")):
        if not isinstance(case, dict) or set(case) != {"n", "c"}:
            raise inputs.fail(f"cases[{index}]", "must be {n, c}")
        n = inputs.as_integer(case["n"], f"cases[{index}].n", 0, 100_000)
        cases.append((n, inputs.as_integer(case["c"], f"cases[{index}].c", 0, n)))
    result: Result = {}
    for k in _ks(inputs):
        rates = over_cases(cases, k)
        none, one = f"no case has {k} trials", f"fewer than two cases have {k} trials"
        row: Result = {
            "pass_at_k": either(rates.pass_at_k, none),
            "pass_hat_k": either(rates.pass_hat_k, none),
            "pass_at_k_se": either(rates.pass_at_k_se, one),
            "pass_hat_k_se": either(rates.pass_hat_k_se, one),
        }
        result[str(k)] = {**row, "too_few_trials": rates.too_few} if rates.too_few else row
    return result


@KINDS.add(
    "pass_k_plugin", "the unbiased values beside the biased plug-in that others show", n="trials", c="passed", k="k"
)
def _pass_k_plugin(inputs: Inputs) -> Result:
    n = inputs.integer("n", 1, 100_000)
    passed, k = inputs.integer("c", 0, n), inputs.integer("k", 1, 10_000)
    at, hat = plug_in(n, passed, k)
    reason = f"k is more than the {n} trials"
    return {
        "unbiased_pass_hat": either(pass_hat_k(n, passed, k), reason),
        "plugin_pass_hat": hat,
        "unbiased_pass_at": either(pass_at_k(n, passed, k), reason),
        "plugin_pass_at": at,
    }


@KINDS.add(
    "proportion_ci",
    "a proportion with Wilson's and the exact (Clopper-Pearson) interval",
    successes="trials that passed",
    n="trials",
    level_opt="confidence level, 0.95 if left out",
)
def _proportion(inputs: Inputs) -> Result:
    n = inputs.integer("n")
    successes = inputs.integer("successes", 0, n)
    level = inputs.inside("level", 0, 1, 0.95)
    return {
        "p": either(successes / n if n else None, "nothing was scored"),
        "wilson": wilson(successes, n, level),
        "clopper_pearson": clopper_pearson(successes, n, level),
    }


@KINDS.add("rule_of_three", "upper bound of a failure rate after no failure", failures="must be 0", n="trials")
def _rule_of_three(inputs: Inputs) -> Result:
    inputs.integer("failures", 0, 0)
    exact, rough = zero_failures_bound(inputs.integer("n", 1))
    return {"exact_upper95": exact, "approx_upper95": rough}


@KINDS.add(
    "two_proportions_unpaired",
    "difference of two independent proportions (not for the same cases)",
    a="[passed, trials]",
    b="[passed, trials]",
)
def _two_proportions(inputs: Inputs) -> Result:
    counts = []
    for name in ("a", "b"):
        pair = inputs.items(name)
        if len(pair) != 2:
            raise inputs.fail(name, "must be [passed, trials]")
        n = inputs.as_integer(pair[1], f"{name}[1]")
        counts.append((inputs.as_integer(pair[0], f"{name}[0]", 0, n), n))
    (passed_a, n_a), (passed_b, n_b) = counts
    difference = passed_a / n_a - passed_b / n_b if n_a and n_b else None
    return {
        "diff": either(difference, "a side has no trial"),
        "newcombe95": newcombe(passed_a, n_a, passed_b, n_b),
    }


@KINDS.add(
    "wilson_effective",
    "pass rate over cases with several trials or families: Wilson on the effective number of cases",
    trials="list of cases, each a list of 0 and 1",
    clusters_opt="the family of each case; null for none",
)
def _wilson_effective(inputs: Inputs) -> Result:
    cases = [trial_counts(inputs, trials, f"trials[{index}]") for index, trials in enumerate(inputs.items("trials"))]
    families = inputs.families("clusters", len(cases)) if "clusters" in inputs else None
    estimate = pass_rate(cases, families)
    return {
        "n_cases": estimate.n_cases,
        "units": estimate.n_units,
        "mean": either(estimate.rate, "nothing was scored"),
        "se": either(estimate.se, ONE_UNIT),
        "n_effective": estimate.n_effective,
        "wilson": estimate.interval,
    }


def trial_counts(inputs: Inputs, trials: object, place: str) -> TrialCounts:
    """A list of 0 and 1 (null: no verdict) as counts."""
    values = inputs.as_items(trials, place)
    for index, value in enumerate(values):
        if value not in (0, 1, None):
            raise inputs.fail(f"{place}[{index}]", "must be 0, 1 or null")
    scored = [value for value in values if value is not None]
    return TrialCounts(sum(map(int, scored)), len(scored), len(values))


@KINDS.add("error_policy", "a pass rate under each policy for errors", passed="count", failed="count", errored="count")
def _error_policy(inputs: Inputs) -> Result:
    bounds = error_bounds(*(inputs.integer(name) for name in ("passed", "failed", "errored")))
    return {
        "exclude": either(bounds.exclude, "nothing was scored"),
        "count_as_fail": either(bounds.count_as_fail, "there is no trial"),
        "lower_bound": either(bounds.lower, "there is no trial"),
        "upper_bound": either(bounds.upper, "there is no trial"),
    }


@KINDS.add("percentiles", "50th, 90th, 95th and 99th percentile, linear interpolation", values="numbers")
def _percentiles(inputs: Inputs) -> Result:
    values = inputs.numbers("values")
    return {f"p{place}": either(percentile(values, place) if values else None, EMPTY) for place in (50, 90, 95, 99)}


_DRAWS = {"B": "resamples", "seed": "of the generator (numpy PCG64)", "generator_opt": "a note; not used"}


def _draws(inputs: Inputs, units: int) -> tuple[int, int]:
    draws = inputs.integer("B", 2, _MAX_DRAWS)
    if draws * units > _MAX_CELLS:
        raise inputs.fail("B", f"{draws:,} resamples of {units:,} are too many; at most {_MAX_CELLS // units:,}")
    return draws, inputs.integer("seed", 0, 2**63)


@KINDS.add("bootstrap_mean", "bootstrap of a mean over cases", scores="numbers, one per case", **_DRAWS)
def _bootstrap_mean(inputs: Inputs) -> Result:
    from mst.stats import bootstrap  # noqa: PLC0415 - loads numpy

    scores = inputs.numbers("scores", 1)
    draws, seed = _draws(inputs, len(scores))
    drawn = bootstrap.bootstrap_mean(scores, draws=draws, seed=seed)
    return {
        "ideal_bootstrap_se": bootstrap.ideal_se(scores),
        "se_this_seed": drawn.se,
        "percentile95_this_seed": [drawn.low, drawn.high],
    }


@KINDS.add(
    "bootstrap_paired",
    "bootstrap of the mean difference a - b over cases",
    a="numbers, one per case",
    b="numbers, same cases",
    **_DRAWS,
)
def _bootstrap_paired(inputs: Inputs) -> Result:
    from mst.stats import bootstrap  # noqa: PLC0415 - loads numpy

    inputs.same_length("a", "b")
    differences = [a - b for a, b in zip(inputs.numbers("a", 1), inputs.numbers("b", 1), strict=True)]
    draws, seed = _draws(inputs, len(differences))
    drawn = bootstrap.bootstrap_mean(differences, draws=draws, seed=seed)
    return {
        "ideal_bootstrap_se": bootstrap.ideal_se(differences),
        "percentile95_this_seed": [drawn.low, drawn.high],
        "share_le_zero_this_seed": drawn.share_not_positive,
    }


@KINDS.add(
    "bootstrap_cluster",
    "bootstrap of a mean that draws whole families",
    scores="numbers, one per case",
    clusters="the family of each case",
    **_DRAWS,
)
def _bootstrap_cluster(inputs: Inputs) -> Result:
    from mst.stats import bootstrap  # noqa: PLC0415 - loads numpy

    scores = inputs.numbers("scores", 1)
    families = inputs.labels("clusters", len(scores))
    draws, seed = _draws(inputs, len(set(families)))
    drawn = bootstrap.bootstrap_mean(scores, families, draws=draws, seed=seed)
    return {"percentile95_this_seed": [drawn.low, drawn.high], "se_this_seed": drawn.se}
