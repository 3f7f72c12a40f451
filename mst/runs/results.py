"""`results.json`: one line per case and variant, written as a stream."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from mst.config.files import discard
from mst.errors import InfrastructureError
from mst.grade.combine import case_passed
from mst.grade.names import graders_for
from mst.model.case import Case, EvalPlan, Variant
from mst.model.numbers import Rate
from mst.model.results import CallTrace, CaseRequest, CaseResult, TrialResult
from mst.model.score import GraderScore
from mst.model.trial import RUN_FORMAT, TrialRecord
from mst.providers.spending import known_usage
from mst.runs.grading import GradedTrial
from mst.runs.outcome import Fate, Outcome
from mst.stats.intervals import wilson


class ResultsWriter:
    """Writes `results.json` beside its name and puts it there when closed without an error.

    The caller holds the folder's lock: what another process left half written is of one that is gone, and is removed.
    """

    def __init__(self, path: Path, run_id: str) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._run_id = run_id
        self._written = 0
        self._stream: IO[bytes]

    def __enter__(self) -> Self:
        for left in self._path.parent.glob(f".{self._path.name}.*.tmp"):
            left.unlink(missing_ok=True)
        self._stream = self._temporary.open("wb")
        head = f'{{"format":"{RUN_FORMAT}","kind":"results","runId":"{self._run_id}","cases":[\n'
        self._stream.write(head.encode())
        return self

    def write(self, result: CaseResult) -> None:
        """Append one case for one variant."""
        self._stream.write(b",\n" if self._written else b"")
        self._stream.write(result.to_json())
        self._written += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
            elif isinstance(error, OSError):
                raise error
        except OSError as refused:
            raise InfrastructureError(
                f"{self._path}: cannot be written ({refused.strerror or refused}); free space or fix permissions"
            ) from refused
        finally:
            with suppress(OSError):
                self._stream.close()
            discard(self._temporary)

    def _finish(self) -> None:
        self._stream.write(f'\n],"caseCount":{self._written}}}\n'.encode())
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._temporary.replace(self._path)


def case_result(
    plan: EvalPlan,
    case: Case,
    variant: Variant,
    trials: Sequence[GradedTrial],
    baseline_pass: bool | None,
    *,
    stopped: str | None = None,
) -> CaseResult:
    """One case for one variant, with every number's denominator. `stopped`: why trials may be missing."""
    outcomes = [trial.outcome for trial in trials]
    results = [_trial_result(trial, stopped) for trial in trials]
    scored = [outcome.passed is True for outcome in outcomes if outcome.fate is Fate.SCORED]
    first = results[0]
    text = _record(trials[0])
    transcript = text.transcript if text is not None else None
    return CaseResult(
        id=case.id,
        variant=variant.name,
        dataset_name=case.dataset,
        passed=case_passed(sum(scored), len(scored), _threshold(plan, case)),
        request=_request(plan, case, variant, len(trials)),
        response=transcript.final_text if transcript is not None and not plan.redact_stored_responses else None,
        error=next((result.error for result in results if result.error), None),
        grading_error=next((result.grading_error for result in results if result.grading_error), None),
        scores=first.scores,
        duration_ms=round(sum(result.duration_ms for result in results), 3),
        tags=case.tags or None,
        tool_precision=_tool_share(first.scores, "precision"),
        tool_recall=_tool_share(first.scores, "recall"),
        tool_call_trace=first.tool_call_trace,
        client_usage=known_usage(result.client_usage for result in results),
        judge_usage=known_usage(result.judge_usage for result in results),
        client_diagnostics=first.client_diagnostics,
        client_telemetry=first.client_telemetry,
        client_metadata=first.client_metadata,
        transcript_evidence=first.transcript_evidence,
        baseline_pass=baseline_pass,
        trial_results=results,
        **_repeats(outcomes, broken=sum(result.is_infrastructure_error is True for result in results)),
    )


def _threshold(plan: EvalPlan, case: Case) -> float:
    return plan.pass_threshold if case.pass_threshold is None else case.pass_threshold


def _repeats(outcomes: Sequence[Outcome], *, broken: int) -> dict[str, Any]:
    if len(outcomes) < 2:
        return {}
    scored = [outcome for outcome in outcomes if outcome.fate is Fate.SCORED]
    passed = sum(outcome.passed is True for outcome in scored)
    found: dict[str, Any] = {
        "infrastructure_error_count": broken,
        "infrastructure_error_rate": round(broken / len(outcomes), 6),
    }
    if scored:
        interval = wilson(passed, len(scored))
        found["pass_rate"] = round(passed / len(scored), 6)
        found["pass_rate_ci"] = Rate(lower=round(interval.low or 0.0, 6), upper=round(interval.high or 1.0, 6))
    return found


def _request(plan: EvalPlan, case: Case, variant: Variant, trials: int) -> CaseRequest:
    graders = graders_for(plan, variant, case)
    return CaseRequest(
        description=str(case.metadata.get("description", case.id)),
        tool_variant_id=variant.name,
        trials=trials,
        pass_threshold=_threshold(plan, case),
        judge_reps=case.judge_reps,
        tags=case.tags,
        assertions=[grader.name for grader in graders if grader.role != "judge"],
        judges=[grader.name for grader in graders if grader.role == "judge"],
        args=case.client_options or None,
        input=case.input,
        reference=case.expected or None,
        client=case.client or variant.client,
        model=case.model or variant.model,
    )


def _record(trial: GradedTrial) -> TrialRecord | None:
    return trial.subject.record if trial.subject is not None else None


def _trial_result(trial: GradedTrial, stopped: str | None) -> TrialResult:
    scores = trial.grading.scores if trial.grading is not None else {}
    record = _record(trial)
    if record is None:
        return TrialResult(
            trial=trial.key.trial,
            passed=None,
            scores=scores,
            duration_ms=0,
            error=f"Missing: this trial was not collected{f', as {stopped}' if stopped else ''}; "
            "'mst run CONFIG --resume RUN' collects it",
            is_infrastructure_error=True,
            failure_kind="missing",
        )
    return TrialResult(
        trial=trial.key.trial,
        passed=trial.outcome.passed,
        scores=scores,
        duration_ms=record.duration_ms,
        error=record.error,
        grading_error=_grading_error(trial),
        is_infrastructure_error=record.infrastructure_error or None,
        failure_kind=record.failure_kind,
        error_kind=record.error_kind,
        limit_hit=record.limit_hit,
        ungraded=True if trial.outcome.fate is Fate.UNGRADED else None,
        tool_call_trace=_tool_calls(record),
        client_diagnostics=record.client_diagnostics,
        transcript_evidence=record.transcript_evidence,
        client_usage=record.client_usage,
        judge_usage=known_usage(score.usage for score in scores.values()),
        skill_loads=record.skill_loads,
        client_telemetry=record.client_telemetry,
        client_metadata=record.client_metadata,
    )


def _grading_error(trial: GradedTrial) -> str | None:
    if trial.grading is None or not trial.grading.errors:
        return None
    return "; ".join(f"{name}: {why}" for name, why in trial.grading.errors.items())


def _tool_calls(record: TrialRecord) -> CallTrace | None:
    events = record.transcript.events if record.transcript is not None else []
    calls = [
        {"name": event.name, "arguments": event.arguments, "status": "error" if event.is_error else "ok"}
        for event in events
        if event.kind == "tool_call"
    ]
    return CallTrace(calls=calls) if calls else None


def _tool_share(scores: dict[str, GraderScore], name: str) -> float | None:
    found = [getattr(score, name) for score in scores.values()]
    return next((value for value in found if value is not None), None)
