"""Why a run's trials failed: causes by what, who, kind and stage, an example of each, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from mst.model.keys import TrialKey
from mst.model.printed.diagnosis import CauseRecord, DiagnosisDocument, ExampleRecord, NextStep
from mst.model.results import CaseResult, TrialResult
from mst.model.run import RunRecord
from mst.model.score import PreferenceRecord
from mst.model.summary import HealthFinding, SummaryRecord
from mst.report.console import INDENT, say
from mst.report.failures import ENDS, Reason, reasons
from mst.report.figures import count
from mst.report.nextsteps import Naming, Step, owed, steps
from mst.report.text import case_label, names, one_line, variant_label, visible
from mst.report.view import RunView, outcome, trial_results

MAX_CAUSES = 500
"""Causes that are kept; further ones are counted together."""
MAX_CASES = 20
EXCERPT_CHARS = 300
ORDER = ("missing", "infrastructure", "incomplete", "grading error", "comparison error", "limit", "program", "check",
         "assertion", "judge", "unexplained", "ungraded", "other")  # fmt: skip
"""What must be mended before the numbers mean something comes first; failed answers by size."""
_BEFORE = {what: rank for rank, what in enumerate(ORDER[:5])}


@dataclass(slots=True)
class Cause:
    """Trials, or comparisons, with one reason. A trial that failed several graders is in several causes.

    Attributes:
        what: the kind of reason; `comparison error` for a pairwise judge without a verdict.
        example: where the first one is, with what its grader or error said.
        cases: the first IDs.
    """

    what: str
    title: str
    who: str
    fault: str
    stage: str
    example: tuple[TrialKey, str]
    steps: list[Step]
    by_variant: Counter[str] = field(default_factory=Counter)
    cases: dict[str, None] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Trials or comparisons with this cause, over all variants."""
        return self.by_variant.total()


@dataclass(slots=True)
class Diagnosis:
    """What became of a run's trials, and why."""

    run: RunRecord
    outcomes: Counter[str]
    causes: list[Cause]


def diagnose(view: RunView, naming: Naming, *, variants: tuple[str, ...] = ()) -> Diagnosis:
    """Read a run's results once, as a stream, and gather causes.

    Args:
        view: the run.
        naming: how commands name it.
        variants: only these; all by default.

    Raises:
        UsageError: nothing is graded yet.
    """
    summary = view.summary()
    found: dict[tuple[str, ...], Cause] = {}
    outcomes: Counter[str] = Counter()
    for case in view.case_results():
        if variants and case.variant not in variants:
            continue
        for trial in trial_results(case):
            outcomes[outcome(trial)] += 1
            for reason in reasons(trial):
                _count(found, _cause(case, trial, reason), case)
    for record in view.preferences():
        if record.preference.error is not None and (not variants or record.variant in variants):
            _count_comparison(found, record, naming)
    for cause in found.values():
        if cause.what not in {"comparison error", "other"}:
            cause.steps = _steps(cause, naming, summary)
    return Diagnosis(view.run(), outcomes, sorted(found.values(), key=_rank))


def _rank(cause: Cause) -> tuple[int, int, bool, str]:
    return _BEFORE.get(cause.what, len(_BEFORE)), -cause.total, cause.what not in ENDS, cause.title


def diagnosis_document(found: Diagnosis) -> DiagnosisDocument:
    """What `mst diagnose --json` prints."""
    return DiagnosisDocument(
        run_id=found.run.run_id,
        eval_name=found.run.eval_name,
        trials=found.outcomes.total(),
        outcomes=dict(found.outcomes),
        causes=[_cause_record(cause) for cause in found.causes],
    )


def render_diagnosis(found: Diagnosis, console: Console, *, limit: int) -> None:
    """Print the causes with their examples and commands. Only commands may be wider than the console."""
    say(console, Text(headline(found), "bold"))
    for number, cause in enumerate(found.causes[:limit], 1):
        console.print()
        shares = ", ".join(f"{variant} {trials:,}" for variant, trials in cause.by_variant.most_common(8))
        noun = "comparison" if cause.what == "comparison error" else "trial"
        say(console, Text.assemble(f"{number}. ", (cause.title, "bold"), f": {count(cause.total, noun)} ({shares})"))
        for line in _body(cause):
            say(console, Text(line), indent=INDENT)
        for step in cause.steps:
            say(console, Text(f"- {step.say}" + (":" if step.command else "")), indent=INDENT)
            if step.command:
                console.print(Text(f"{' ' * (INDENT + 2)}{visible(step.command)}", "cyan"), soft_wrap=True)
    if len(found.causes) > limit:
        console.print()
        say(
            console,
            Text(f"and {count(len(found.causes) - limit, 'more cause')}; --limit {len(found.causes)} shows all"),
        )


def headline(found: Diagnosis) -> str:
    """What became of the trials, in a sentence."""
    outcomes, total = found.outcomes, found.outcomes.total()
    said = {
        "failed": "failed",
        "infrastructure": "broke down",
        "incomplete": "with nothing to score",
        "missing": "missing",
        "grading error": "without a verdict",
        "ungraded": "ungraded",
    }
    parts = [f"{outcomes[name]:,} {word}" for name, word in said.items() if outcomes[name]]
    name = f"{one_line(found.run.eval_name, limit=60)} {found.run.run_id.split('-', 1)[-1]}"
    if not parts:
        rest = "" if found.causes else "; nothing to diagnose"
        return f"{name}: {'all' if total else 'none'} of {count(total, 'trial')} passed{rest}"
    return f"{name}: of {count(total, 'trial')} {outcomes['passed']:,} passed, {', '.join(parts)}"


def _body(cause: Cause) -> Iterator[str]:
    key, text = cause.example
    yield f"e.g. {variant_label(key.variant)}, {case_label(key.case_id)}, trial {key.trial}: {text}"
    if len(cause.cases) > 1:
        yield f"cases: {names(list(cause.cases))}"


def _cause(case: CaseResult, trial: TrialResult, reason: Reason) -> Cause:
    key = TrialKey(variant=case.variant, case_id=case.id, trial=trial.trial)
    said = one_line(reason.text, limit=EXCERPT_CHARS)
    return Cause(reason.what, _title(reason), reason.who, reason.fault, reason.stage, (key, said), [])


def _title(reason: Reason) -> str:
    """A cause's heading says which kind of grader it was."""
    if reason.what == "check":
        grader, _, check = reason.title.partition(": ")
        return f"check {check} failed" if grader == "checks" else f"check {check} of {grader} failed"
    if reason.what == "assertion":
        return f"assertion {reason.title} failed"
    if reason.what == "judge":
        return f"{reason.title} said no"
    return f"{reason.title} ({reason.fault})" if reason.what == "grading error" else reason.title


def _count(found: dict[tuple[str, ...], Cause], cause: Cause, case: CaseResult) -> None:
    _add(found, cause, case.variant, case.id)


def _count_comparison(found: dict[tuple[str, ...], Cause], record: PreferenceRecord, naming: Naming) -> None:
    fault = record.preference.error_kind or "grader"
    key = TrialKey(variant=record.variant, case_id=record.case_id, trial=0)
    said = one_line(record.preference.error or "no message", limit=EXCERPT_CHARS)
    title = f"grading error: {one_line(record.judge, limit=80)} ({fault})"
    cause = Cause("comparison error", title, record.judge, fault, "", (key, said), owed(fault, naming))
    _add(found, cause, record.variant, record.case_id)


def _add(found: dict[tuple[str, ...], Cause], cause: Cause, variant: str, case_id: str) -> None:
    key: tuple[str, ...] = (cause.what, cause.who, cause.fault, cause.stage)
    if key not in found and len(found) >= MAX_CAUSES:
        key = ("other",)
        cause.what, cause.title = "other", "other reasons"
    kept = found.setdefault(key, cause)
    kept.by_variant[variant_label(variant)] += 1
    if len(kept.cases) < MAX_CASES:
        kept.cases.setdefault(case_id)


def _steps(cause: Cause, naming: Naming, summary: SummaryRecord) -> list[Step]:
    reason = Reason(cause.what, "", who=cause.who, fault=cause.fault, stage=cause.stage)  # type: ignore[arg-type]  # made of one
    suspect = next((finding.said for finding in summary.health if _is_about(finding, cause)), None)
    return steps(reason, naming, cases=list(cause.cases), suspect=suspect)


def _is_about(finding: HealthFinding, cause: Cause) -> bool:
    """Whether a sign of ill health says that this cause's failures may be the grader's own."""
    grader = cause.who.partition(": ")[0] if cause.what == "check" else cause.who
    doubts = {"never_passes", "contradicts_oracle", "unsteady", "contradict"}
    return finding.kind in doubts and finding.grader in {grader, cause.who}


def _cause_record(cause: Cause) -> CauseRecord:
    key, text = cause.example
    return CauseRecord(
        what=cause.what,
        title=cause.title,
        grader=cause.who or None,
        kind=cause.fault or None,
        stage=cause.stage or None,
        count=cause.total,
        by_variant=dict(cause.by_variant),
        cases=list(cause.cases),
        example=ExampleRecord(variant=key.variant, case=key.case_id, trial=key.trial, text=text),
        next=[NextStep(say=step.say, command=step.command) for step in cause.steps],
    )
