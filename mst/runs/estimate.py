"""What a run will take, from what the latest run of the same eval took. What is not known is said to be unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mst.model.case import EvalPlan, Variant
from mst.model.run import RunRecord
from mst.model.summary import VariantSummary
from mst.runs.again import last_graded
from mst.runs.record import conceal_plan


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Time and money of collecting some trials, and of grading them.

    Attributes:
        trials: how many will be made.
        run_id: of the run whose figures were taken; None: there is none.
        program_s: of all trials, one after another.
        cost_usd: of the programs under test.
        judge_cost_usd: of judges; 0 when there are none.
        unknown: why something is not known, in words.
    """

    trials: int
    run_id: str | None = None
    program_s: float | None = None
    cost_usd: float | None = None
    judge_cost_usd: float | None = None
    unknown: tuple[str, ...] = ()

    def wall_s(self, at_once: int) -> float | None:
        """How long collecting takes when so many trials run at a time, each as long as before."""
        return None if self.program_s is None else self.program_s / max(1, min(at_once, self.trials))


def estimate(plan: EvalPlan, trials: Mapping[str, int], root: Path) -> Estimate:
    """Estimate what making `trials` (by variant) takes.

    A figure is taken only from a variant that has the same set-up in the latest run, and added up only when it is known
    for every variant.
    """
    count = sum(trials.values())
    before = last_graded(plan.name, root)
    if before is None:
        return Estimate(trials=count, unknown=("no finished run of this eval yet",))
    run, summary = before.run(), before.summary()
    unknown: list[str] = []
    changed: list[str] = []
    known: dict[str, VariantSummary] = {}
    stored = {variant.name: variant for variant in run.plan.variants}
    today = {variant.name: variant for variant in conceal_plan(plan, run.hmac_key).variants}
    measured = {variant.name: variant for variant in summary.variants}
    for name in trials:
        if name not in stored or name not in measured:
            unknown.append(f"variant {name} is not in that run")
        elif not _is_same(stored[name], today[name]):
            changed.append(name)
        else:
            known[name] = measured[name]
    if changed:
        were = f"variant {changed[0]} was" if len(changed) == 1 else f"variants {', '.join(changed)} were"
        unknown.append(f"{were} set up otherwise then")
    if unknown:
        return Estimate(trials=count, run_id=run.run_id, unknown=tuple(unknown))
    seconds = _sum({name: known[name].metrics.get("duration_s_mean") for name in trials}, trials)
    cost = _sum({name: known[name].metrics.get("cost_usd_mean") for name in trials}, trials)
    judges = _judge_cost(plan, run, known, trials)
    if cost is None:
        unknown.append("its programs did not say what they cost")
    if judges is None:
        unknown.append("its judges did not say what they cost, or were others")
    return Estimate(
        trials=count,
        run_id=run.run_id,
        program_s=seconds,
        cost_usd=cost,
        judge_cost_usd=judges,
        unknown=tuple(unknown),
    )


def _is_same(then: Variant, now: Variant) -> bool:
    """Whether a variant is set up as it was, its graders and its name apart."""
    ignored: dict[str, object] = {"judges": [], "description": None, "metrics": []}
    return then.model_copy(update=ignored).to_json() == now.model_copy(update=ignored).to_json()


def _judge_cost(
    plan: EvalPlan, run: RunRecord, known: Mapping[str, VariantSummary], trials: Mapping[str, int]
) -> float | None:
    if not any(variant.judges for variant in plan.variants) and not any(
        grader.level in {"case", "pairwise"} for grader in run.graders
    ):
        return 0.0
    wanted = {spec.identity().hash for variant in plan.variants for spec in variant.judges}
    if plan.pairwise_judges or not wanted <= {grader.identity for grader in run.graders}:
        return None  # what comparisons cost depends on how many have both sides
    means: dict[str, float | None] = {}
    for name, variant in known.items():
        used = variant.result.total_judge_usage
        paid = used.cost_usd if used else None
        means[name] = paid / variant.counts.scored if paid is not None and variant.counts.scored else None
    return _sum(means, trials)


def _sum(means: Mapping[str, float | None], trials: Mapping[str, int]) -> float | None:
    total = 0.0
    for name, number in trials.items():
        mean = means[name]
        if mean is None:
            return None
        total += mean * number
    return total
