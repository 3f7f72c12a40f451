"""Are the cases sound? The reference solution must pass each one, and doing nothing must not pass a change."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mst.collect.context import RunContext
from mst.collect.loop import collect
from mst.collect.trial import Collected
from mst.config.files import FileSource
from mst.config.resolve import ResolvedEval
from mst.grade.combine import trial_outcome
from mst.grade.contract import Grader
from mst.grade.live import Live
from mst.grade.names import graders_for
from mst.judges.contract import Subject
from mst.model.case import Case, EvalPlan, GraderSpec, Variant
from mst.model.keys import TrialKey
from mst.model.score import GraderScore, TrialGrading
from mst.model.trial import TrialRecord, trial_digest
from mst.process.redact import Redactor
from mst.process.scratch import scratch_prefix
from mst.process.stop import Stop
from mst.runs.folder import TrialArtifacts

StandIn = Literal["oracle", "noop"]
Verdict = Literal["1.0", "deferred", "FAILED", "MISSING"]

TOOL_ASSERTIONS = frozenset({"tools_triggered", "tool_call_count"})
"""A reference solution calls no tools, so these say nothing about it."""
NO_REFERENCE = "write down a right answer, or check this eval with --noop alone"
RUN_ID = "19700101T000000Z-000000"
"""Nothing is stored, but records have a run ID."""


@dataclass(frozen=True)
class CaseCheck:
    """What a stand-in showed about one case.

    Attributes:
        verdict: `1.0`: as it should be. `deferred`: what can be graded here is as it should be, the rest needs a real
            run. `FAILED`: the case or its graders are wrong. `MISSING`: there is no reference answer to try.
        detail: why, in words; empty for `1.0`.
    """

    case_id: str
    verdict: Verdict
    detail: str = ""

    @property
    def is_faulty(self) -> bool:
        """Whether the case must be repaired before anything is paid."""
        return self.verdict in {"FAILED", "MISSING"}


async def check_cases(
    resolved: ResolvedEval, stand_in: StandIn, *, secrets: Mapping[str, str], cancel: Stop
) -> list[CaseCheck]:
    """Let a stand-in answer every case once and grade it with everything that costs nothing; judges are not asked.

    `oracle` must pass; `noop` must fail a `change` case and pass a `stay_quiet` one. Nothing is kept. Cases that were
    not started when `cancel` was set are not in the result.

    Returns:
        One check for each case, in the order of the cases.

    Raises:
        ConfigError: a grader cannot be made.
    """
    plan = stand_in_plan(resolved.plan, stand_in)
    found: dict[str, CaseCheck] = {}
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("check")) as name:
        scratch = Path(name)
        checker = _Checker(resolved, plan, stand_in, secrets, scratch)

        async def sink(collected: Collected) -> None:
            found[collected.record.case_id] = await checker.check(collected)

        context = RunContext.of(plan, run_id=RUN_ID, files=resolved.files, secrets=secrets, scratch_root=scratch)
        await collect(plan, resolved.cases, _keys(resolved, stand_in), context, sink=sink, cancel=cancel)
    return [found[case_id] for case_id in resolved.cases.ids if case_id in found]


def _keys(resolved: ResolvedEval, stand_in: StandIn) -> Iterator[TrialKey]:
    for case_id in resolved.cases.ids:
        yield TrialKey(variant=stand_in, case_id=case_id, trial=0)


def stand_in_plan(plan: EvalPlan, stand_in: StandIn) -> EvalPlan:
    """The plan with the stand-in as its only variant, once, in the baseline's sandbox; nothing is compared."""
    baseline = plan.variant(plan.baseline)
    variant = Variant(name=stand_in, client=stand_in, trial_limits=baseline.trial_limits, sandbox=baseline.sandbox)
    once = {"trials": 1, "trials_override": 1, "retries": 0}
    return plan.model_copy(update={"variants": [variant], "baseline": stand_in, "pairwise_judges": [], **once})


def telling(specs: Sequence[GraderSpec], stand_in: StandIn) -> list[GraderSpec]:
    """The assertions that say something about a stand-in."""
    return [spec for spec in specs if stand_in == "noop" or spec.type not in TOOL_ASSERTIONS]


class _Checker:
    def __init__(
        self, resolved: ResolvedEval, plan: EvalPlan, stand_in: StandIn, secrets: Mapping[str, str], scratch: Path
    ) -> None:
        self.judging = Judging(resolved.plan, plan, stand_in)
        self.cases = resolved.cases
        files: FileSource = resolved.files
        self.source = Live(plan, files=files, secrets=secrets, scratch=scratch, redactor=Redactor(secrets.values()))

    async def check(self, collected: Collected) -> CaseCheck:
        record = collected.record
        case = self.cases.get(record.case_id)
        graders, _put_off = self.judging.graders(case)
        grading = None
        if record.status == "completed" and graders:
            key = TrialKey(variant=record.variant, case_id=case.id, trial=0)
            subject = Subject(
                case=case,
                record=record,
                digest=trial_digest(record.to_json(), record.artifact_files),
                artifacts=TrialArtifacts(collected.artifacts or Path(), record.artifact_files),
            )
            grading = await self.source.trial(key, subject, graders)
        return self.judging.check(case, record, grading)


@dataclass(frozen=True)
class Judging:
    """From what graders found to what it says about the case. Pure.

    Attributes:
        whole: the eval's own plan.
        plan: with the stand-in; see `stand_in_plan`.
    """

    whole: EvalPlan
    plan: EvalPlan
    stand_in: StandIn

    def check(self, case: Case, record: TrialRecord, grading: TrialGrading | None) -> CaseCheck:
        """What a stand-in's trial shows about its case.

        Args:
            case: whole.
            record: of the trial.
            grading: by the graders that were asked; None when there was nothing to ask them.
        """
        if record.status == "error":
            return CaseCheck(case.id, "FAILED", f"{record.error_kind}: {record.error}")
        graders, put_off = self.graders(case)
        if record.status == "incomplete" and graders:
            return CaseCheck(case.id, "MISSING", f"{record.error}; {NO_REFERENCE}")
        if not graders or grading is None:
            return self._ungraded(case, put_off)
        outcome = trial_outcome(grading)
        faults = failing(grading.scores)
        if outcome == "error":
            return CaseCheck(case.id, "FAILED", faults)
        if outcome == "deferred":
            return CaseCheck(case.id, "deferred", _deferred(grading.scores))
        return self._verdict(case, passed=outcome == "passed", faults=faults, put_off=put_off)

    def graders(self, case: Case) -> tuple[list[Grader], list[str]]:
        """Graders to ask, and names of those that say nothing about a stand-in."""
        stripped = case.model_copy(update={"judges": []})
        graders = graders_for(self.plan, self.plan.variants[0], stripped)
        asked = [grader for grader in graders if telling([grader.spec], self.stand_in)]
        return asked, [grader.name for grader in graders if grader not in asked]

    def _ungraded(self, case: Case, put_off: list[str]) -> CaseCheck:
        if put_off:
            return CaseCheck(case.id, "deferred", f"{', '.join(put_off)}: a reference solution calls no tools")
        if case.judges or any(variant.judges for variant in self.whole.variants):
            return CaseCheck(case.id, "deferred", "only judges grade this case, and they are not asked here")
        if self.whole.pairwise_judges:
            return CaseCheck(case.id, "deferred", "only comparisons are made of this case")
        return CaseCheck(case.id, "FAILED", "nothing grades this case: give it assertions, checks or a judge")

    def _verdict(self, case: Case, *, passed: bool, faults: str, put_off: list[str]) -> CaseCheck:
        if self.stand_in == "noop" and case.kind == "change":
            why = "passes although nothing was done: its graders do not see whether the work was done"
            return CaseCheck(case.id, "FAILED", why) if passed else CaseCheck(case.id, "1.0")
        if not passed:
            return CaseCheck(case.id, "FAILED", faults)
        if put_off:
            return CaseCheck(case.id, "deferred", f"{', '.join(put_off)}: a reference solution calls no tools")
        return CaseCheck(case.id, "1.0")


def failing(scores: Mapping[str, GraderScore]) -> str:
    """Graders that erred or did not pass, with their failing checks or details."""
    parts: list[str] = []
    for name, score in scores.items():
        if score.error is not None:
            parts.append(f"{name}: {score.error}")
        elif score.counts and not score.passed:
            checks = [check for check in score.checks or [] if check.graded and not check.passed]
            words = [f"{check.name}{f' ({check.detail})' if check.detail else ''}" for check in checks]
            parts.append(f"{name}: {', '.join(words) or score.details}")
    return "; ".join(parts)


def _deferred(scores: Mapping[str, GraderScore]) -> str:
    return "; ".join(f"{name}: needs {', '.join(score.deferred)}" for name, score in scores.items() if score.deferred)
