"""A trial's metrics, and how a candidate's differ from the baseline's case by case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mst.model.score import GraderScore
from mst.model.trial import TrialRecord
from mst.runs.grading import GradedTrial
from mst.stats.intervals import MeanEstimate
from mst.stats.streaming import StreamedMean

MAX_DIFFERENCES = 200
"""Metrics whose differences are followed; graders may name as many as they like."""


@dataclass
class Mean:
    """A mean over known values."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        """Count a value; an unknown one is left out, never taken as zero."""
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def value(self) -> float | None:
        """None when nothing is known."""
        return self.total / self.count if self.count else None


def trial_metrics(trial: GradedTrial) -> Iterator[tuple[str, float | None]]:
    """Every metric of a trial; None where it is not known. A trial that broke down has no metric of its program."""
    record = trial.subject.record if trial.subject is not None else None
    if record is None:
        return
    if not record.infrastructure_error:
        yield from _of_program(record)
    if trial.grading is not None:
        for name, score in trial.grading.scores.items():
            yield from _of_score(name, score)


def _of_program(record: TrialRecord) -> Iterator[tuple[str, float | None]]:
    events = record.transcript.events if record.transcript is not None else []
    calls = [event for event in events if event.kind == "tool_call"]
    # without evidence nothing was seen, which is not the same as nothing being there
    seen = record.evidence != "none"
    yield "tool_count_mean", len(calls) if seen else None
    yield "mcp_call_count_mean", sum(event.source == "mcp" for event in calls) if seen else None
    yield "builtin_event_count_mean", sum(event.source == "builtin" for event in events) if seen else None
    for search in (event for event in events if event.kind == "tool_search"):
        yield "tool_search_hit_rate", float(bool(search.results))
    yield "duration_s_mean", record.duration_ms / 1000
    usage = record.client_usage
    yield "input_tokens_mean", usage.input_tokens if usage else None
    yield "output_tokens_mean", usage.output_tokens if usage else None
    yield "cost_usd_mean", usage.cost_usd if usage else None


def _of_score(name: str, score: GraderScore) -> Iterator[tuple[str, float | None]]:
    if not score.is_verdict or score.skipped:
        return
    if name.startswith("judge."):
        yield "judge_pass_rate", float(score.passed)
        yield "judge_score", score.score
    yield from (score.metrics or {}).items()


def case_means(trials: Iterable[GradedTrial]) -> dict[str, dict[str, float | None]]:
    """One case's metrics: variant -> metric -> mean over the trials that know it."""
    found: dict[str, dict[str, Mean]] = {}
    for trial in trials:
        means = found.setdefault(trial.key.variant, {})
        for name, value in trial_metrics(trial):
            means.setdefault(name, Mean()).add(value)
    return {variant: {name: mean.value for name, mean in means.items()} for variant, means in found.items()}


class MetricDifferences:
    """One candidate's metrics less the baseline's, case by case; what is kept grows with families, not with cases."""

    def __init__(self) -> None:
        self._cases = 0
        self._found: dict[str, StreamedMean] = {}
        self._families: dict[str, int] = {}

    def add(
        self, baseline: Mapping[str, float | None], candidate: Mapping[str, float | None], family: str | None
    ) -> None:
        """Count one case. A metric that a side does not know there has no difference there."""
        unit = None if family is None else self._families.setdefault(family, len(self._families))
        for name in dict.fromkeys((*baseline, *candidate)):
            if name not in self._found and len(self._found) >= MAX_DIFFERENCES:
                continue
            ours, theirs = candidate.get(name), baseline.get(name)
            known = ours is not None and theirs is not None
            difference = ours - theirs if ours is not None and theirs is not None else None
            if name in self._found or known:
                self._found.setdefault(name, StreamedMean()).add(difference, unit)
        self._cases += 1

    def estimates(self) -> dict[str, MeanEstimate]:
        """By metric, those with a difference in some case."""
        return {name: found.estimate() for name, found in sorted(self._found.items())}

    def unknown(self, estimate: MeanEstimate) -> int:
        """Cases in which a side had no value, those before the metric first appeared among them."""
        return self._cases - estimate.n
