"""Findings as sentences: the same words on the terminal, in the HTML report and in exports."""

from __future__ import annotations

from mst.model.keys import regrade_number
from mst.model.run import RunRecord
from mst.model.summary import Counts, ErrorPolicy, HealthFinding, Pairwise, SummaryRecord, VariantSummary, VerdictRecord
from mst.report.beside import position_words
from mst.report.figures import count, p_value, percent, points, points_interval
from mst.report.text import names, one_line

_UNCOUNTED = frozenset({"missing", "ungraded", "with nothing to score"})
"""What is said of trials without a noun that takes a plural."""


def claim(verdict: VerdictRecord) -> str:
    """The verdict as a sentence without numbers; contains the verdict word."""
    candidate, baseline = one_line(verdict.candidate, limit=60), one_line(verdict.baseline, limit=60)
    return {
        "better": f"{candidate} is better than {baseline}",
        "worse": f"{candidate} is worse than {baseline}",
        "no difference shown": f"no difference shown between {candidate} and {baseline}",
        "cannot tell": f"cannot tell whether {candidate} is better than {baseline}",
    }[verdict.verdict]


def evidence(verdict: VerdictRecord, *, candidates: int) -> str:
    """The numbers behind a verdict: difference with interval, flips, p with how it was corrected and tested.

    Args:
        verdict: the decision.
        candidates: how many candidates were compared with the baseline in this run.
    """
    if verdict.difference is None:
        return f"no case could be compared{_unmatched(verdict)}"
    difference = f"{points(verdict.difference)} {points_interval(verdict.interval, verdict.level)}".strip()
    up, down = len(verdict.flips_up), len(verdict.flips_down)
    flips = f"{count(up, 'case')} up, {down:,} down of {verdict.cases_compared:,} compared{_unmatched(verdict)}"
    return f"{difference}, {flips}, {_tested(verdict, candidates)}"


def interval_note(verdict: VerdictRecord) -> str | None:
    """Why the interval and the verdict seem to disagree, when they do; None otherwise.

    The interval is a t-interval and the verdict an exact test, so with few cases one may see what the other does not.
    """
    if verdict.interval is None:
        return None
    leaves_out_0 = verdict.interval.lower > 0 or verdict.interval.upper < 0
    if leaves_out_0 and verdict.verdict == "no difference shown":
        return (
            "the interval leaves out 0, but the verdict goes by the exact test, whose p must be under 0.025: "
            "with few cases the interval is only a rough guide"
        )
    if not leaves_out_0 and verdict.verdict in {"better", "worse"}:
        return "the interval includes 0, but the verdict goes by the exact test: with few cases the interval is rough"
    return None


def pairwise_line(pairwise: Pairwise) -> str:
    """A pairwise judge's comparison: win rate, wins, losses and ties over cases, sign test."""
    found = pairwise.summary
    judge, candidate = one_line(pairwise.judge, limit=60), one_line(pairwise.candidate, limit=60)
    parts = [
        f"{judge}: {candidate} preferred in {percent(found.candidate_win_rate)} of {count(found.compared, 'case')}",
        count(found.candidate_wins, "win"),
        count(found.baseline_wins, "loss", "losses"),
        f"{count(found.ties, 'tie')} counted as half",
        f"sign test {p_value(found.sign_test_p)}",
    ]
    if found.skipped:
        parts.append(f"{found.skipped:,} skipped")
    if found.errors:
        parts.append(count(found.errors, "grading error"))
    if found.consistency is not None:
        parts.append(f"both orders agreed in {percent(found.consistency)}")
    if found.position is not None:
        parts.append(position_words(found.position))
    return ", ".join(parts)


def counts_line(counts: Counts) -> str:
    """The honest denominator: what was scored of what was planned, and what became of the rest."""
    parts = [f"{counts.scored:,} of {count(counts.planned, 'trial')} scored"]
    rest = {
        "infrastructure failure": counts.errored - counts.grading_errors - (counts.incomplete or 0),
        "with nothing to score": counts.incomplete,
        "missing": counts.missing,
        "ungraded": counts.ungraded,
        "grading error": counts.grading_errors,
    }
    for label, number in rest.items():
        if number:
            parts.append(f"{number:,} {label}" if label in _UNCOUNTED else count(number, label))
    if counts.retried:
        parts.append(f"{counts.retried:,} retried")
    return ", ".join(parts)


def is_whole(counts: Counts) -> bool:
    """Whether every planned trial has a score."""
    return counts.scored == counts.planned and not counts.grading_errors


def phases_line(run: RunRecord) -> str:
    """How far collecting and grading came."""
    return f"collect {run.phases.collect}, grade {run.phases.grade}"


def warnings(run: RunRecord, summary: SummaryRecord) -> list[str]:
    """What a reader must know before any number: failed phases, narrowing, looks at the data; then the run's own."""
    found = [
        f"The {phase} phase failed: these numbers rest on what it left behind."
        for phase, state in (("collect", run.phases.collect), ("grade", run.phases.grade))
        if state == "failed"
    ]
    if summary.graded is False:
        found.append("This run was collected only: nothing is graded yet.")
    if run.partial or summary.partial:
        found.append(f"This run was narrowed{_selection(run)}: it says nothing about what was left out.")
    if run.looks:
        found.append(f"This data was extended {count(run.looks, 'time')} after a look at it: p-values are too small.")
    grading = regrade_number(run.run_id)
    if grading > 2:
        found.append(
            f"This is grading {grading} of the same trials: when the best of several gradings is picked, "
            "p-values are too small."
        )
    found += wasted(run)
    found += retries(summary)
    found += [one_line(text, limit=400) for text in summary.warnings]
    found += [errors_line(name, policy) for name, policy in summary.error_policy.items()]
    found += [one_line(finding.said, limit=400) for finding in summary.health if is_urgent(finding)]
    return list(dict.fromkeys(found))


def wasted(run: RunRecord) -> list[str]:
    """What lost attempts at grading cost; empty when it is nothing, or not known."""
    runner = run.grading.runner if run.grading is not None else None
    if runner is None or not (runner.wasted_tokens or runner.wasted_cost_usd):
        return []
    money = f" ({runner.wasted_cost_usd:.4g} USD)" if runner.wasted_cost_usd else ""
    tokens = count(runner.wasted_tokens or 0, "token")
    return [f"Lost attempts at shards used {tokens}{money} for verdicts that were given again; no figure counts that."]


def retries(summary: SummaryRecord) -> list[str]:
    """How many trials were made again, by variant; empty when none was."""
    by_variant = [(found.name, found.counts.retried) for found in summary.variants if found.counts.retried]
    total = sum(number for _name, number in by_variant)
    if not total:
        return []
    attempts = sum(found.counts.superseded or 0 for found in summary.variants)
    shares = ", ".join(f"{one_line(name, limit=60)} {number:,}" for name, number in by_variant)
    were = f"{count(total, 'trial')} {'was' if total == 1 else 'were'} retried after a fault of the machine or of mst"
    return [f"{were} ({shares}): the last attempt counts, {count(attempts, 'earlier attempt')} kept beside it."]


def is_urgent(finding: HealthFinding) -> bool:
    """Whether a sign of ill health stands above the numbers. An assertion that everything passes is no news."""
    return finding.kind not in {"always_passes", "never_passes"} or finding.grader.startswith("judge.")


def errors_line(variant: str, policy: ErrorPolicy) -> str:
    """How trials without a score are counted, and how far they could move a variant's rate."""
    return (
        f"{one_line(variant, limit=60)}: {count(policy.without_score, 'trial')} without a score, left out of its rate "
        f"({percent(policy.exclude)}); as failures {percent(policy.count_as_fail)}, "
        f"bounds {percent(policy.lower)} to {percent(policy.upper)}."
    )


def judge_mean(variant: VariantSummary) -> float | None:
    """The mean of the judges' scores, None when there is no judge or no score."""
    return variant.metrics.get("judge_score")


def _tested(verdict: VerdictRecord, candidates: int) -> str:
    test = one_line(verdict.test, limit=80)
    if verdict.verdict == "worse":
        return f"{p_value(verdict.p_worse)} for worse (uncorrected, {test})"
    if verdict.p_better_holm is None:
        return f"{p_value(verdict.p_better)} ({test})"
    corrected = f"Holm of {candidates}, " if candidates > 1 else ""
    return f"{p_value(verdict.p_better_holm)} ({corrected}{test})"


def _unmatched(verdict: VerdictRecord) -> str:
    return f", {verdict.cases_unmatched:,} unmatched" if verdict.cases_unmatched else ""


def _selection(run: RunRecord) -> str:
    if run.selection is None:
        return ""
    parts = []
    for field, value in run.selection.to_dict().items():
        parts.append(f"{field} {names([str(item) for item in value]) if isinstance(value, list) else value}")
    return f" ({'; '.join(parts)})" if parts else ""
