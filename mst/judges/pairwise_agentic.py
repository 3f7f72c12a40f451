"""A pairwise judge that is an agent: it reads both sides as files under neutral names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mst.errors import GraderError
from mst.judges.agent import Agent, AgentOptions, agent_secrets
from mst.judges.agenttask import AGENT_HASH, task_for_two
from mst.judges.answers import compared_schema
from mst.judges.contract import Choice, JudgeContext, Subject
from mst.judges.options import parse_options
from mst.judges.pairwise_rubric import Dimensions
from mst.judges.verdict import PairVerdict, check_answer
from mst.model.base import Model
from mst.model.case import GraderSpec


class PairwiseAgentOptions(AgentOptions, Dimensions):
    """Options of the pairwise `agentic`."""


class AgenticPairwise:
    """Starts an agent once per call, in a private folder with `first/` and `second/`, laid out alike."""

    Options: ClassVar[type[Model]] = PairwiseAgentOptions
    PROMPT_HASH: ClassVar[str] = AGENT_HASH
    deterministic: ClassVar[bool] = False

    def __init__(self, spec: GraderSpec) -> None:
        self._options = parse_options(spec, PairwiseAgentOptions)
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

    async def compare(
        self, baseline: Subject, candidate: Subject, context: JudgeContext, *, candidate_first: bool
    ) -> Choice:
        """Let the agent compare both sides in one order.

        Raises:
            GraderError: no usable preference.
        """
        sides = [candidate, baseline] if candidate_first else [baseline, candidate]
        wanted = self._options.dimensions
        said = await self._agent.ask(
            sides, task_for_two(self._options.rubric, wanted), compared_schema(list(wanted)), context
        )
        verdict = said.filled(check_answer(said.value, PairVerdict))
        absent = [name for name in wanted if name not in (verdict.dimensions or {})]
        if absent and not verdict.skipped:
            raise GraderError(f"the answer does not compare {', '.join(absent)}", "answer")
        return verdict.choice(candidate_first=candidate_first)
