"""Tidy tables of a run: what a row is, which columns it has, and the rows one by one.

`docs/reference/exports.md` lists the columns with the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from mst.model.results import CaseResult, TrialResult
from mst.model.run import RunRecord
from mst.model.score import GraderScore, Preference, PreferenceRecord
from mst.model.transcript import Usage
from mst.report.exports.formats import Asked, TableName
from mst.report.view import RunView, outcome, trial_results

Kind = Literal["text", "integer", "number", "flag"]
Cell = str | int | float | bool | None
"""None is unknown or not applicable, never 0 or false."""
Row = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns in order, and how its rows come from a run."""

    row: str
    columns: tuple[Column, ...]
    rows: Callable[[RunView, Asked], Iterator[Row]]


_RUN = (Column("run_id", "text", "of the run or regrade"), Column("eval", "text", "the eval's name"))
_OWED = (
    Column("skipped", "flag", "whether it was not asked"),
    Column("error_kind", "text", "why there is no verdict, in a word"),
    Column("error", "text", "why there is no verdict"),
)
_CASE = (
    Column("variant", "text", "the variant's name"),
    Column("case_id", "text", "the case's ID"),
    Column("trial", "integer", "number of the trial, from 0"),
)
TRIALS = (
    *_RUN,
    *_CASE,
    Column("is_baseline", "flag", "whether the others are compared with this variant"),
    Column("dataset", "text", "name of the case's dataset"),
    Column("tags", "text", "the case's tags, joined by `;`"),
    Column(
        "outcome",
        "text",
        "`passed`, `failed`, `infrastructure`, `missing`, `grading error`, `ungraded` or `incomplete`",
    ),
    Column("passed", "flag", "empty unless the trial was scored; only scored trials enter pass rates"),
    Column("case_passed", "flag", "whether the case passed: its share of passed trials reached its threshold"),
    Column("error_kind", "text", "whose fault an error was"),
    Column("error", "text", "what went wrong before grading"),
    Column("grading_error", "text", "which graders gave no verdict, and why"),
    Column("limit_hit", "text", "the limit that ended the program"),
    Column("duration_s", "number", "of the trial, seconds"),
    Column("input_tokens", "integer", "of the program under test"),
    Column("output_tokens", "integer", "of the program under test"),
    Column("cost_usd", "number", "of the program under test, US dollars"),
    Column("cost_is_estimated", "flag", "whether `cost_usd` comes from configured prices"),
    Column("judge_cost_usd", "number", "of the judges on this trial, US dollars"),
    Column("tool_calls", "integer", "of the program under test; empty when its evidence is `none`"),
    Column("evidence", "text", "how far the transcript can be trusted: `structured`, `observed`, `none`"),
)
SCORES = (
    *_RUN,
    *_CASE,
    Column("grader", "text", "its name; `judge.` before a judge's"),
    Column("passed", "flag", "the finding; empty when there is no verdict"),
    Column("counts", "flag", "whether it has a say in the trial's pass"),
    Column("score", "number", "0 to 1, where the grader gives one"),
    *_OWED,
    Column("details", "text", "what an assertion or check said"),
    Column("reasoning", "text", "what a judge said"),
    Column("judge_model", "text", "the model that judged"),
    Column("cost_usd", "number", "of the judge, US dollars"),
    Column("duration_s", "number", "of the judge, seconds"),
)
PREFERENCES = (
    *_RUN,
    Column("judge", "text", "the pairwise judge's name"),
    Column("candidate", "text", "the variant that was compared"),
    Column("baseline", "text", "what it was compared with"),
    Column("case_id", "text", "the case's ID"),
    Column("preference", "text", "`candidate`, `baseline` or `tie`; empty when there is no verdict"),
    Column("consistent", "flag", "whether both orders named the same side; empty when one order was asked"),
    Column("strength", "number", "how clear it was, where the judge says so"),
    *_OWED,
    Column("reasoning", "text", "what the judge said"),
    Column("judge_model", "text", "the model that judged"),
    Column("cost_usd", "number", "of the judge, US dollars"),
)


def trial_rows(view: RunView, asked: Asked) -> Iterator[Row]:
    """A row per planned trial, in the order of `results.json`."""
    run = view.run()
    for case in view.case_results():
        if asked.wants(case.variant):
            for trial in trial_results(case):
                yield _trial(run, case, trial)


def score_rows(view: RunView, asked: Asked) -> Iterator[Row]:
    """A row per trial and grader."""
    run = view.run()
    for case in view.case_results():
        if asked.wants(case.variant):
            for trial in trial_results(case):
                for grader, score in trial.scores.items():
                    yield _score(run, case, trial, grader, score)


def preference_rows(view: RunView, asked: Asked) -> Iterator[Row]:
    """A row per case, candidate and pairwise judge."""
    run = view.run()
    for record in view.preferences():
        if asked.wants(record.variant):
            yield _preference(run, record)


def _trial(run: RunRecord, case: CaseResult, trial: TrialResult) -> Row:
    usage = trial.client_usage
    return {
        "run_id": run.run_id,
        "eval": run.eval_name,
        "variant": case.variant,
        "case_id": case.id,
        "trial": trial.trial,
        "is_baseline": case.variant == run.baseline,
        "dataset": case.dataset_name,
        "tags": ";".join(case.tags or case.request.tags) or None,
        "outcome": outcome(trial),
        "passed": trial.passed,
        "case_passed": case.passed,
        "error_kind": trial.error_kind,
        "error": trial.error,
        "grading_error": trial.grading_error,
        "limit_hit": trial.limit_hit,
        "duration_s": None if trial.failure_kind == "missing" else trial.duration_ms / 1000,
        "input_tokens": None if usage is None else usage.input_tokens,
        "output_tokens": None if usage is None else usage.output_tokens,
        "cost_usd": usage.cost_usd if usage else None,
        "cost_is_estimated": _is_estimated(usage),
        "judge_cost_usd": trial.judge_usage.cost_usd if trial.judge_usage else None,
        "tool_calls": _tool_calls(trial),
        "evidence": trial.transcript_evidence,
    }


def _tool_calls(trial: TrialResult) -> int | None:
    if trial.tool_call_trace is not None:
        return len(trial.tool_call_trace.calls)
    return None if trial.transcript_evidence in {None, "none"} else 0


def _is_estimated(usage: Usage | None) -> bool | None:
    return None if usage is None or usage.cost_usd is None else usage.total_cost_usd is None


def _score(run: RunRecord, case: CaseResult, trial: TrialResult, grader: str, score: GraderScore) -> Row:
    has_verdict = score.is_verdict and not score.skipped
    return {
        "run_id": run.run_id,
        "eval": run.eval_name,
        "variant": case.variant,
        "case_id": case.id,
        "trial": trial.trial,
        "grader": grader,
        "passed": score.passed if has_verdict else None,
        "counts": score.counts,
        "score": score.score,
        **_owed(score),
        "details": score.details or None,
        "reasoning": score.reasoning,
        "judge_model": score.judge_model,
        "cost_usd": score.usage.cost_usd if score.usage else None,
        "duration_s": None if score.judge_duration_ms is None else score.judge_duration_ms / 1000,
    }


def _owed(found: GraderScore | Preference) -> Row:
    return {
        "skipped": bool(found.skipped),
        "error_kind": (found.error_kind or "grader") if found.error is not None else None,
        "error": found.error,
    }


def _preference(run: RunRecord, record: PreferenceRecord) -> Row:
    found = record.preference
    return {
        "run_id": run.run_id,
        "eval": run.eval_name,
        "judge": record.judge,
        "candidate": record.variant,
        "baseline": record.baseline,
        "case_id": record.case_id,
        "preference": found.preference if found.is_verdict and not found.skipped else None,
        "consistent": found.consistent,
        "strength": found.strength,
        **_owed(found),
        "reasoning": found.reasoning,
        "judge_model": found.model,
        "cost_usd": found.usage.cost_usd if found.usage else None,
    }


ALL: dict[TableName, Table] = {
    "trials": Table("a trial: one variant on one case, once", TRIALS, trial_rows),
    "scores": Table("one grader's finding on one trial", SCORES, score_rows),
    "preferences": Table("one pairwise judge's finding on one case of one candidate", PREFERENCES, preference_rows),
}
