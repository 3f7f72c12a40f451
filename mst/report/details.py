"""What the case panel shows of a trial and of a comparison, as plain JSON with every text bounded and made visible."""

from __future__ import annotations

from typing import Any

from mst.model.keys import segment
from mst.model.results import CaseResult, TrialResult
from mst.model.score import GraderScore, PairCall, PreferenceRecord
from mst.model.transcript import Event
from mst.model.trial import TrialRecord
from mst.report.figures import cost, metric, seconds, size
from mst.report.text import clipped, shown
from mst.report.view import outcome

TEXT_LIMIT = 32_000
DIFF_LIMIT = 64_000
EVENT_LIMIT = 8_000
SHORT_LIMIT = 4_000
MAX_EVENTS = 200
MAX_ARTIFACTS = 200

JSONMap = dict[str, Any]


def case_detail(case: CaseResult) -> JSONMap:
    """What a case asked for."""
    asked = case.request
    return _filled(
        {
            "input": _text(asked.input if asked.input not in (None, "") else asked.args, TEXT_LIMIT),
            "reference": _text(asked.reference, TEXT_LIMIT),
            "description": _text(asked.description, SHORT_LIMIT),
            "threshold": asked.pass_threshold,
        }
    )


def trial_detail(case: CaseResult, trial: TrialResult, record: TrialRecord | None) -> JSONMap:
    """One trial with its transcript, diff, artifacts and scores.

    Args:
        case: whose trial it is.
        trial: how it was graded.
        record: what the client brought back; None when nothing is stored.
    """
    detail: JSONMap = {
        "trial": trial.trial,
        "outcome": outcome(trial),
        "facts": _facts(trial, record),
        "errors": _errors(trial),
        "scores": [_score(name, score) for name, score in trial.scores.items()],
    }
    if record is None:
        return _filled(detail)
    events = record.transcript.events if record.transcript else []
    return _filled(
        {
            **detail,
            "events": [_event(event) for event in events[:MAX_EVENTS]],
            "moreEvents": max(0, len(events) - MAX_EVENTS) or None,
            "answer": _text(record.transcript.final_text if record.transcript else None, TEXT_LIMIT),
            "diff": _text(record.diff, DIFF_LIMIT),
            "artifacts": [_artifact(file.path, file.size) for file in record.artifact_files[:MAX_ARTIFACTS]],
            "moreArtifacts": max(0, len(record.artifact_files) - MAX_ARTIFACTS) or None,
            "file": f"transcripts/{segment(case.variant)}/{segment(case.id)}/{trial.trial}.json",
        }
    )


def comparison_detail(record: PreferenceRecord) -> JSONMap:
    """One pairwise judge's finding on one case, each call in its order."""
    found = record.preference
    return _filled(
        {
            "judge": _text(record.judge, SHORT_LIMIT),
            "preference": "error" if found.error else "skipped" if found.skipped else found.preference,
            "consistent": found.consistent,
            "strength": found.strength,
            "reasoning": _text(found.reasoning, SHORT_LIMIT),
            "error": _text(found.error, SHORT_LIMIT),
            "by": _text(" ".join(part for part in (found.provider, found.model, found.version) if part), SHORT_LIMIT),
            "calls": [_call(call) for call in found.pairs or []],
        }
    )


def _call(call: PairCall) -> JSONMap:
    return _filled(
        {
            "order": call.order,
            "rep": call.rep,
            "baselineTrial": call.baseline_trial,
            "candidateTrial": call.candidate_trial,
            "preference": "error" if call.error else call.preference,
            "strength": call.strength,
            "reasoning": _text(call.reasoning, SHORT_LIMIT),
            "error": _text(call.error, SHORT_LIMIT),
        }
    )


def _facts(trial: TrialResult, record: TrialRecord | None) -> list[list[str]]:
    """Label and value pairs; only what is known."""
    usage = trial.client_usage
    tokens = [str(part) for part in (usage.input_tokens, usage.output_tokens) if part is not None] if usage else []
    facts = {
        "time": seconds(trial.duration_ms / 1000) if trial.failure_kind != "missing" else None,
        "cost": cost(usage) if usage else None,
        "tokens in / out": " / ".join(tokens) or None,
        "evidence": trial.transcript_evidence,
        "limit hit": trial.limit_hit,
        "exit code": str(record.exit_code) if record and record.exit_code is not None else None,
        "started": record.started_at if record else None,
        "skills": ", ".join(trial.skill_loads or []) or None,
    }
    return [[label, clipped(value, limit=SHORT_LIMIT)] for label, value in facts.items() if value and value != "-"]


def _errors(trial: TrialResult) -> list[list[str]]:
    kind = f" ({trial.error_kind})" if trial.error_kind else ""
    found = [
        ("infrastructure failure" + kind if trial.is_infrastructure_error else "error" + kind, trial.error),
        ("grading error", trial.grading_error),
    ]
    return [[label, clipped(text, limit=SHORT_LIMIT)] for label, text in found if text]


def _score(name: str, score: GraderScore) -> JSONMap:
    by = " ".join(part for part in (score.judge_name, score.judge_provider, score.judge_model) if part)
    return _filled(
        {
            "name": _text(name, SHORT_LIMIT),
            "state": _state(score),
            "score": score.score,
            "details": _text(score.details, SHORT_LIMIT),
            "reasoning": _text(score.reasoning, SHORT_LIMIT),
            "error": _text(score.error, SHORT_LIMIT),
            "by": _text(by, SHORT_LIMIT),
            "deferred": _text(", ".join(score.deferred or []), SHORT_LIMIT),
            "reps": score.scores,
            "spread": "high" if score.high_variance else None,
            "checks": [
                _filled(
                    {
                        "name": _text(check.name, SHORT_LIMIT),
                        "passed": check.passed,
                        "graded": check.graded,
                        "detail": _text(check.detail, SHORT_LIMIT),
                    }
                )
                for check in score.checks or []
            ],
            "parts": [
                _filled(
                    {
                        "name": _text(part, SHORT_LIMIT),
                        "score": sub.score,
                        "passed": sub.passed,
                        "reasoning": _text(sub.reasoning, SHORT_LIMIT),
                    }
                )
                for part, sub in (score.sub_scores or {}).items()
            ],
            "metrics": [[_text(label, SHORT_LIMIT), metric(value)] for label, value in (score.metrics or {}).items()],
        }
    )


def _state(score: GraderScore) -> str:
    if score.error is not None:
        return "grading error"
    if score.skipped:
        return "skipped"
    if score.deferred:
        return "deferred"
    word = "passed" if score.passed else "failed"
    return f"{word}, informational" if score.graded is False else word


def _event(event: Event) -> JSONMap:
    return _filled(
        {
            "kind": event.kind,
            "source": event.source if event.kind == "tool_call" else None,
            "server": _text(event.server, SHORT_LIMIT),
            "name": _text(event.name, SHORT_LIMIT),
            "arguments": _text(event.arguments, EVENT_LIMIT),
            "output": _text(event.output, EVENT_LIMIT),
            "found": _text(event.results, EVENT_LIMIT),
            "isError": event.is_error,
            "time": seconds(event.duration_ms / 1000) if event.duration_ms is not None else None,
        }
    )


def _artifact(path: str, size_bytes: int) -> list[str]:
    return [clipped(path, limit=SHORT_LIMIT), size(size_bytes)]


def _text(value: Any, limit: int) -> str | None:
    return None if value is None else shown(value, limit=limit)


def _filled(fields: JSONMap) -> JSONMap:
    """Without what is not known or empty. Zero and False are findings and stay."""
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [])}
