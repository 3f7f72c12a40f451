"""A judge that is an agent: it reads a trial as files, with whatever tools it has, and says a verdict last."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, ClassVar

from mst.errors import GraderError
from mst.judges.agent import Agent, AgentOptions, agent_secrets
from mst.judges.agenttask import AGENT_HASH, task_for_one
from mst.judges.answers import scored_schema
from mst.judges.contract import Finding, JudgeContext, Subject
from mst.judges.options import parse_options
from mst.judges.prompts import criteria
from mst.judges.verdict import Verdict, check_answer
from mst.model.base import Model
from mst.model.case import GraderSpec


class AgenticJudge:
    """Starts an agent once per call, in a private folder that it can read and not change."""

    Options: ClassVar[type[Model]] = AgentOptions
    PROMPT_HASH: ClassVar[str] = AGENT_HASH

    def __init__(self, spec: GraderSpec) -> None:
        self._options = parse_options(spec, AgentOptions)
        self._agent = Agent(spec, self._options)

    @classmethod
    def secrets_of(cls, options: Mapping[str, Any]) -> list[str]:
        """See `Judge`."""
        return agent_secrets(options)

    def bound_s(self, timeout_s: float) -> float:
        """See `Judge`."""
        return self._agent.bound_s(timeout_s)

    async def preflight(self, context: JudgeContext) -> None:
        """See `Agent.preflight`."""
        await self._agent.preflight(context)

    async def evaluate(self, subject: Subject, context: JudgeContext) -> Finding:
        """Let the agent judge one trial. With criteria in the case the score is the mean of theirs.

        Raises:
            GraderError: no usable verdict.
        """
        wanted = len(criteria(subject.case))
        task = task_for_one(self._options.rubric, criteria=wanted)
        said = await self._agent.ask([subject], task, scored_schema(wanted), context)
        verdict = said.filled(check_answer(said.value, Verdict))
        if wanted and not verdict.skipped:
            parts = verdict.sub_scores or {}
            numbers = [str(number) for number in range(1, wanted + 1)]
            if sorted(parts) != sorted(numbers):
                raise GraderError(f"the answer scores the criteria {sorted(parts)}, asked were 1 to {wanted}", "answer")
            verdict = verdict.model_copy(update={"score": statistics.fmean(parts[name].score for name in numbers)})
        return verdict.finding()
