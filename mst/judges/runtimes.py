"""The coding agents that judges may be, beside any program of your own: how one is asked, and what it may use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mst.agents.claude_code import ClaudeCode
from mst.agents.codex import Codex
from mst.agents.contract import Agent, Given
from mst.agents.keyproxy import KeyProxy
from mst.agents.mini_swe_agent import MiniSweAgent
from mst.errors import GraderError, GradingFault
from mst.judges.contract import JudgeContext
from mst.judges.folder import CallFolder
from mst.judges.worktime import WorkTime
from mst.model.case import TrialLimits
from mst.model.transcript import Transcript
from mst.process.child import ChildResult
from mst.providers.patience import QUEUE_S
from mst.sandboxes.contract import Enclosure

Runtime = Literal["command", "claude-code", "codex", "mini-swe-agent"]
RUNTIMES: Mapping[str, Agent] = {"claude-code": ClaudeCode(), "codex": Codex(), "mini-swe-agent": MiniSweAgent()}
OUTPUT_BYTES = 16 * 1024**2
TOKENS_A_TURN = 4000
"""Estimate of what one call of the model uses, where a limit of tokens holds; what it really used is told after it."""
TIME = "time"
"""Why an agent was ended that worked for longer than it may."""
FAULTS: Mapping[int, GradingFault] = {401: "auth", 403: "auth", 402: "quota", 429: "rate_limit", 502: "transport"}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What an agent is asked.

    Attributes:
        answer: a JSON Schema of the answer. Agents that take one are held to it; it is checked in any case.
        workspace: what it reads, on this machine.
        home: writable, its own.
        env: besides what it needs itself.
    """

    task: str
    answer: Mapping[str, Any]
    workspace: Path
    home: CallFolder
    env: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Which agent, and its settings. The others are the provider's usual ones when None."""

    runtime: str
    model: str | None
    program: str | None
    base_url: str | None
    key: str | None
    rate_limit: str | None
    turns: int
    args: list[str]

    @property
    def agent(self) -> Agent:
        """How it is started and read."""
        return RUNTIMES[self.runtime]

    @property
    def secret(self) -> str:
        """Name of the secret that holds the provider's key."""
        return self.key or self.agent.KEY

    async def ask(self, question: Question, inside: Enclosure, context: JudgeContext) -> Transcript:
        """Let the agent work to its end. The key stays on this side of a proxy.

        Raises:
            GraderError: it did not end in time, reached a limit, or failed; with the provider's part in it.
            ProgramError: it could not be started.
        """
        stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def reached(limit: str) -> None:
            if not stop.done():
                stop.set_result(limit)

        clock = WorkTime(context.timeout_s, lambda: reached(TIME))
        limits = TrialLimits(time_s=context.timeout_s, turns=self.turns, output_bytes=OUTPUT_BYTES)
        limiter = context.limits.named(self.rate_limit or self.agent.PROVIDER)
        proxy = KeyProxy(
            upstream=self.base_url or self.agent.URL,
            key=context.secrets[self.secret],
            limits=limits,
            reached=reached,
            turn=lambda: clock.turn(limiter, TOKENS_A_TURN),
        )
        door = await inside.door(proxy.serve)
        home = question.home.root / "home"
        plan = self.agent.plan(
            Given(
                prompt="\n\n".join(part for part in (question.task, self.agent.LAST_WORDS) if part),
                model=self.model,
                url=f"http://127.0.0.1:{door.port}",
                key=proxy.token,
                home=inside.seen(home),
                limits=limits,
                answer=question.answer,
                reads_only=True,
            )
        )
        env = inside.environment({**plan.env, **question.env})
        plan.write_files(home)
        with clock:
            child = await inside.run(
                [*door.prefix, self.program or plan.argv[0], *plan.argv[1:], *self.args],
                cwd=question.workspace,
                env=env,
                stdin=plan.stdin,
                timeout_s=context.timeout_s + QUEUE_S,
                output_bytes=OUTPUT_BYTES,
                stop=stop,
                read=[question.workspace],
            )
        transcript, _ = self.agent.read(child.stdout, home, OUTPUT_BYTES)
        if (fault := self._fault(child, transcript, proxy, context)) is not None:
            raise fault
        return transcript

    def _fault(
        self, child: ChildResult, transcript: Transcript, proxy: KeyProxy, context: JudgeContext
    ) -> GraderError | None:
        """Why what it said is no verdict; None when it may be one."""
        if child.stopped == TIME:
            return GraderError(f"{self.runtime} did not end within {context.timeout_s:g} s", "timeout")
        if child.timed_out:
            return GraderError(f"{self.runtime} waited over {QUEUE_S:g} s for its turns; see rate_limits", "timeout")
        if child.stopped == "turns":
            return GraderError(f"{self.runtime} reached its limit of {self.turns} calls of the model (max_turns)")
        if child.stopped or child.output_truncated:
            return GraderError(f"{self.runtime} was ended: {child.stopped or f'it printed over {OUTPUT_BYTES} bytes'}")
        if child.exit_code == 0 and transcript.error is None:
            return None
        said = context.redact(transcript.error or child.stderr[-2000:].decode(errors="replace")).strip()[-300:]
        what = f"{self.runtime} ended with exit code {child.exit_code}" + (f": {said}" if said else "")
        if proxy.refused is None:
            return GraderError(what)
        kind = FAULTS.get(proxy.refused, "server" if proxy.refused >= 500 else "request")
        return GraderError(f"{what} (the provider answered {proxy.refused})", kind)
