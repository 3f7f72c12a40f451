"""The grading source that calls graders. What has a verdict already is not asked again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from mst.config.files import FileSource
from mst.errors import GraderError, InvariantError
from mst.grade.assertions.base import Assertion
from mst.grade.breaker import Breaker
from mst.grade.caller import Caller, bounded, kind_of, storable, why
from mst.grade.checks import run_checks
from mst.grade.comparing import pair_digests
from mst.grade.contract import Grader, GradingSource, Pair
from mst.grade.judging import check_finding, judged, skipped
from mst.grade.pairwise import prefer
from mst.grade.redaction import redacted
from mst.judges.contract import Judge, Subject
from mst.judges.python_call import MEMORY_BYTES
from mst.judges.view import not_asked, unmet
from mst.model.case import EvalPlan, GraderSpec
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, GraderScore, TrialGrading
from mst.process.redact import Redactor
from mst.process.together import together
from mst.providers.limits import Limits
from mst.sandboxes.contract import Sandbox
from mst.sandboxes.open import open_sandbox

Earlier = Callable[[TrialKey | ComparisonKey], TrialGrading | ComparisonGrading | None]

PREFLIGHT_S = 120.0


def no_earlier(_: TrialKey | ComparisonKey) -> None:
    """For a first grading."""


class Live(GradingSource):
    """Calls graders. Their faults, foreign exceptions included, become scores with `error`; they never raise.

    Args:
        plan: for time limits, prices and rate limits.
        files: finds graders' files by digest.
        secrets: values by name; a grader gets those that its spec lists.
        scratch: parent of private working folders.
        redactor: takes the secrets out of everything that graders say.
        earlier: finds an earlier grading of a unit, whose verdicts are kept where bytes and grader are the same.
        memory_bytes: address space of a case's checks.
        limits: who gives turns to calls of models; limits of this process alone unless given.
    """

    def __init__(
        self,
        plan: EvalPlan,
        *,
        files: FileSource,
        secrets: Mapping[str, str],
        scratch: Path,
        redactor: Redactor,
        earlier: Earlier = no_earlier,
        memory_bytes: int = MEMORY_BYTES,
        limits: Limits | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self._caller = Caller(
            files=files,
            secrets=secrets,
            scratch=scratch,
            redactor=redactor,
            timeout_s=plan.stage_timeouts.score_s,
            pricing=plan.pricing,
            limits=limits or Limits(plan.rate_limits.get("providers")),
            breaker=breaker or Breaker(),
        )
        self._plan = plan
        self._sandboxes: dict[tuple[str, str | None], Sandbox | None] = {}
        self._earlier = earlier
        self._memory_bytes = memory_bytes
        self._preflighted: set[tuple[str, str, tuple[str, ...]]] = set()

    async def preflight(self, graders: Sequence[Grader]) -> None:
        """Prepare every grader, and preflight each distinct judge once. No case is judged.

        Raises:
            GraderError: one line for each that cannot work, with its name.
        """
        fresh: dict[tuple[str, str, tuple[str, ...]], Grader] = {}
        for grader in graders:
            distinct = (grader.role, grader.identity, tuple(grader.spec.secrets))
            if distinct not in self._preflighted:
                fresh.setdefault(distinct, grader)
        faults = await together(self._preflight(grader) for grader in fresh.values())
        found = [fault for fault in faults if fault is not None]
        if found:
            raise GraderError("\n".join(found))
        self._preflighted.update(fresh)

    async def _preflight(self, grader: Grader) -> str | None:
        try:
            prepared = self._caller.prepared(grader)
            if grader.role in {"judge", "pairwise"}:
                async with asyncio.timeout(PREFLIGHT_S):
                    await prepared.preflight(self._caller.context(grader.spec))
        except InvariantError:
            raise
        except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything
            # what options are wrong in says whose they are by itself
            said = why(error).removeprefix(f"{grader.spec.name or grader.spec.type}: ")
            return self._caller.redactor.text(f"{grader.name}: {said}")
        return None

    async def aclose(self) -> None:
        """Close what judges keep open in this event loop."""
        await self._caller.aclose()

    async def trial(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> TrialGrading:
        """See `GradingSource.trial`. Assertions that run nothing cost no task; the others run concurrently."""
        scores = self._kept(key, subject, graders)
        waiting: dict[str, Coroutine[Any, Any, GraderScore]] = {}
        for grader in graders:
            if grader.name in scores:
                continue
            found = self._start(grader, subject)
            if isinstance(found, GraderScore):
                scores[grader.name] = redacted(found, self._caller.redactor)
            else:
                waiting[grader.name] = found
        for name, score in zip(waiting, await together(waiting.values()), strict=True):
            scores[name] = redacted(score, self._caller.redactor)
        return TrialGrading(
            key=key,
            trial_digest=subject.digest,
            scores={grader.name: scores[grader.name] for grader in graders},
            identities={grader.name: grader.identity for grader in graders},
        )

    async def comparison(self, key: ComparisonKey, pair: Pair, judges: Sequence[Grader]) -> ComparisonGrading:
        """See `GradingSource.comparison`. Calls of one judge follow each other; judges run concurrently."""
        earlier = self._earlier(key)
        digests = pair_digests(pair)
        known = earlier if isinstance(earlier, ComparisonGrading) and earlier.trial_digests == digests else None
        preferences = await together(prefer(self._caller, judge, pair, known) for judge in judges)
        return ComparisonGrading(
            key=key,
            trial_digests=digests,
            preferences={judge.name: found for judge, found in zip(judges, preferences, strict=True)},
            identities={judge.name: judge.identity for judge in judges},
        )

    def _kept(self, key: TrialKey, subject: Subject, graders: Sequence[Grader]) -> dict[str, GraderScore]:
        """Verdicts of the earlier grading that still hold."""
        earlier = self._earlier(key)
        if not isinstance(earlier, TrialGrading) or earlier.trial_digest != subject.digest:
            return {}
        return {
            grader.name: score
            for grader in graders
            if (score := earlier.scores.get(grader.name)) is not None
            and score.is_verdict
            and earlier.identities.get(grader.name) == grader.identity
        }

    def _start(self, grader: Grader, subject: Subject) -> GraderScore | Coroutine[Any, Any, GraderScore]:
        """The score of a pure assertion, or what will give the score of anything else."""
        context = self._caller.context
        try:
            if grader.role == "checks":
                given = context(grader.spec, self._sandbox(subject))
                running = run_checks(subject, grader.spec, given, memory_bytes=self._memory_bytes)
                return _guarded(running)
            prepared = self._caller.prepared(grader)
            if grader.role == "judge":
                return self._judge(grader, prepared, subject)
            assertion, options = prepared
            if isinstance(assertion, Assertion):
                return assertion.grade(subject, options)
            return _guarded(assertion.run(subject, options, grader.spec, context(grader.spec, self._sandbox(subject))))
        except InvariantError:
            raise
        except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything
            return _no_verdict(error)

    def _sandbox(self, subject: Subject) -> Sandbox | None:
        """The sandbox of the trial's variant: what it left is only run where it was made, or as well kept."""
        name, image = subject.record.variant, subject.case.image
        if (name, image) not in self._sandboxes:
            written = next((each.sandbox for each in self._plan.variants if each.name == name), {})
            own = {"image": image} if image is not None and written.get("kind") == "docker" else {}
            found = open_sandbox({**written, **own}, f"variant {name!r}")
            self._sandboxes[name, image] = found if found.isolates else None
        return self._sandboxes[name, image]

    async def _judge(self, grader: Grader, judge: Judge, subject: Subject) -> GraderScore:
        spec, breaker = grader.spec, self._caller.breaker
        if (reason := breaker.stopped(grader)) is not None:
            score = GraderScore(passed=False, error=reason, error_kind="stopped")
        else:
            score = await _guarded(self._repeat(spec, judge, subject))
            if score.error is not None and score.error_kind is not None:
                await breaker.failed(grader, score.error_kind, score.error)
            elif not score.skipped:
                breaker.answered(grader)
        return score if score.judge_name else score.model_copy(update={"judge_name": spec.name or spec.type})

    async def _repeat(self, spec: GraderSpec, judge: Judge, subject: Subject) -> GraderScore:
        missing = unmet(spec.requires, subject)
        if missing:
            return skipped(spec, not_asked(missing))
        context = self._caller.context(spec)
        started = time.perf_counter()
        findings = []
        for _ in range(spec.reps):
            finding = await bounded(judge, judge.evaluate(subject, context), context.timeout_s)
            findings.append(check_finding(finding))
        elapsed_ms = (time.perf_counter() - started) * 1000
        return judged(findings, spec).model_copy(update={"judge_duration_ms": elapsed_ms})


async def _guarded(running: Awaitable[GraderScore]) -> GraderScore:
    try:
        return storable(await running)
    except InvariantError:
        raise
    except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything
        return _no_verdict(error)


def _no_verdict(error: Exception) -> GraderScore:
    kind = kind_of(error)
    return GraderScore(passed=False, error=why(error), error_kind=None if kind == "grader" else kind)
