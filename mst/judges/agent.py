"""An agent that judges: its options, and how it is started on its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import Field, model_validator

from mst.errors import GraderError, ProgramError
from mst.judges.agenttask import last_object
from mst.judges.contract import JudgeContext, Subject
from mst.judges.folder import call_folder, fill
from mst.judges.material import lay_out
from mst.judges.options import Options
from mst.judges.program import OUTPUT_BYTES, need_program, need_secrets
from mst.judges.python_call import stderr_tail
from mst.judges.runtimes import RUNTIMES, Question, Runtime, Setting
from mst.judges.verdict import AnswerT
from mst.model.case import GraderSpec
from mst.model.transcript import Usage
from mst.providers.endpoints import SecretName
from mst.providers.patience import QUEUE_S
from mst.providers.spending import priced_as
from mst.sandboxes.contract import Enclosure, Sandbox
from mst.sandboxes.open import open_sandbox


class AgentOptions(Options):
    """Options of judges that are agents."""

    main: ClassVar[str] = "argv"

    runtime: Runtime = "command"
    """Which agent: `command` starts a program of your own that reads its task on stdin and answers on stdout;
    `claude-code`, `codex` and `mini-swe-agent` are started as variants with these clients are."""
    argv: list[str] = []
    """The program, with `runtime: command`. `{{python}}` is this interpreter, `{{files}}` the folder with the judge's
    files, `{{workspace}}` the folder that it reads, which is also its working folder."""
    rubric: str = Field(default="correctness", min_length=1)
    """A named rubric or a text of your own, as for `rubric`."""
    env: dict[str, str] = {}
    """Settings for its environment; secrets are listed under `secrets` instead."""
    max_tool_output: int | None = Field(default=None, ge=0)
    """Characters that it sees of each event's output."""
    model: str | None = None
    """The model that the agent uses; with `runtime: command` it is only part of the judge's identity."""
    program: str | None = None
    """The agent's program; its usual name, found on the search path, unless given. Not with `command`, as the next."""
    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """Of the model's API; the provider's own unless given."""
    api_key: SecretName | None = None
    """Name of the secret with the provider's key; its usual name unless given. The agent itself never has the key."""
    rate_limit: str | None = None
    """Entry of `rate_limits.providers` that its calls of the model keep; the provider's name by default."""
    max_turns: int = Field(default=100, ge=1)
    """Calls of the model after which it is ended without a verdict."""
    args: list[str] = []
    """Further arguments, at the end."""
    sandbox: dict[str, Any] = {}
    """As a variant's `sandbox`, for instance `{kind: bwrap, network: open}`; then the kernel keeps the folder
    read-only, also from root."""

    @model_validator(mode="after")
    def _fits_runtime(self) -> AgentOptions:
        if self.runtime == "command":
            unused = [name for name in _OF_RUNTIMES if name in self.model_fields_set]
            if not self.argv:
                raise ValueError("'argv' is missing: the program to start, or give another 'runtime'")
            if unused:
                raise ValueError(f"{', '.join(unused)}: only for runtimes other than 'command'")
        elif self.argv:
            raise ValueError(f"'argv' is for runtime 'command'; {self.runtime} takes 'program' and 'args'")
        elif RUNTIMES[self.runtime].NEEDS_MODEL and not self.model:
            raise ValueError(f"'model' is missing: {self.runtime} has no model of its own")
        return self

    def setting(self) -> Setting | None:
        """The agent when it is a known one; None for a program of your own."""
        if self.runtime == "command":
            return None
        return Setting(
            runtime=self.runtime,
            model=self.model,
            program=self.program,
            base_url=self.base_url,
            key=self.api_key,
            rate_limit=self.rate_limit,
            turns=self.max_turns,
            args=self.args,
        )


_OF_RUNTIMES = ("program", "base_url", "api_key", "rate_limit", "max_turns", "args")


def agent_secrets(options: Mapping[str, Any]) -> list[str]:
    """Secrets that options of an agentic judge ask for: the key of its provider."""
    runtime = options.get("runtime", "command")
    return [options.get("api_key") or RUNTIMES[runtime].KEY] if runtime in RUNTIMES else []


@dataclass(frozen=True, kw_only=True)
class Said:
    """What an agent said last, and what it used when that is known."""

    value: dict[str, Any]
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None

    def filled(self, answer: AnswerT) -> AnswerT:
        """The answer with what is known of who gave it, where it does not say so itself."""
        known = {"usage": self.usage, "provider": self.provider, "model": self.model}
        return answer.model_copy(
            update={name: value for name, value in known.items() if getattr(answer, name) is None and value is not None}
        )


class Agent:
    """One agent.

    Args:
        spec: with its files and the names of its secrets.
        options: validated.

    Raises:
        ConfigError: the sandbox is not well-formed.
    """

    def __init__(self, spec: GraderSpec, options: AgentOptions) -> None:
        self._spec = spec
        self._options = options
        self._setting = options.setting()
        found = open_sandbox(options.sandbox, f"{spec.name or spec.type}")
        self._sandbox: Sandbox | None = found if found.isolates else None

    def bound_s(self, timeout_s: float) -> float:
        """See `Judge`: a known agent's calls of its model wait for their turns."""
        return timeout_s if self._setting is None else timeout_s + QUEUE_S

    async def preflight(self, context: JudgeContext) -> None:
        """Check that the agent, its secrets and its sandbox are here.

        Raises:
            GraderError: with what is missing.
        """
        need_secrets(self._spec.secrets, context)
        faults = self._sandbox.faults() if self._sandbox is not None else []
        if self._setting is None:
            need_program(self._options.argv[0], self._spec)
        else:
            faults += self._runtime_faults(self._setting)
        if faults:
            raise GraderError("; ".join(faults))

    def _runtime_faults(self, setting: Setting) -> list[str]:
        name = setting.program or setting.agent.PROGRAM
        if self._sandbox is None:
            need_program(name, self._spec)
            return []
        fault = self._sandbox.program_fault(name)
        faults = [fault] if fault is not None else []
        options = self._sandbox.options
        if options.kind == "docker" and options.reach == "open":
            faults.append(
                "the way to the model leads into docker with `network: none` only; it is reached all the same"
            )
        return faults

    async def ask(
        self, subjects: Sequence[Subject], task: str, answer: Mapping[str, Any], context: JudgeContext
    ) -> Said:
        """Give the agent its folder and its task, and return the JSON object that it said last, paths made neutral.

        Args:
            answer: a JSON Schema of the answer, for agents that take one.

        Raises:
            GraderError: it could not be started, did not end in time, failed, or said no object.
        """
        need_secrets(self._spec.secrets, context)
        async with call_folder(context.scratch) as material, call_folder(context.scratch) as home:
            workspace = await lay_out(
                material, subjects, self._spec.files, context.files, max_tool_output=self._options.max_tool_output
            )
            question = Question(
                task=task, answer=answer, workspace=workspace, home=home, env=self._environment(context)
            )
            async with home.enclosed(self._sandbox) as inside:
                try:
                    text, usage = await self._answer(question, inside, context)
                except ProgramError as error:
                    raise GraderError(str(error)) from error
                except GraderError as error:
                    raise GraderError(material.neutral(home.neutral(str(error))), error.kind) from error
            value = material.neutral(home.neutral(last_object(context.redact(text))))
            return self._said(value, usage, context)

    def _environment(self, context: JudgeContext) -> dict[str, str]:
        """Its settings and secrets, but for the key of a known agent, which stays with the proxy."""
        key = None if self._setting is None else self._setting.secret
        return {**self._options.env, **{name: value for name, value in context.secrets.items() if name != key}}

    def _said(self, value: dict[str, Any], usage: Usage | None, context: JudgeContext) -> Said:
        setting = self._setting
        provider = setting.agent.PROVIDER if setting is not None else None
        model = self._options.model if setting is not None else None
        priced = priced_as(usage, [f"{provider}:{model}", f"{model}"], context.pricing)
        return Said(value=value, usage=priced, provider=provider, model=model)

    async def _answer(self, question: Question, inside: Enclosure, context: JudgeContext) -> tuple[str, Usage | None]:
        if self._setting is None:
            return await self._run_program(question, inside, context), None
        found = await self._setting.ask(question, inside, context)
        return found.final_text or "", found.usage

    async def _run_program(self, question: Question, inside: Enclosure, context: JudgeContext) -> str:
        workspace = question.workspace
        values = {"files": str(workspace / "files"), "workspace": str(workspace)}
        result = await inside.run(
            fill(self._options.argv, values),
            cwd=workspace,
            env=inside.environment(question.env),
            stdin=question.task.encode(),
            timeout_s=context.timeout_s,
            output_bytes=OUTPUT_BYTES,
            read=[workspace],
        )
        if result.timed_out:
            raise GraderError(f"the agent did not end within {context.timeout_s:g} s", "timeout")
        if result.output_truncated or result.stopped:
            raise GraderError(f"the agent was ended: {result.stopped or f'it printed over {OUTPUT_BYTES} bytes'}")
        if result.exit_code != 0:
            said = stderr_tail(result, question.home, context)
            raise GraderError(f"the agent ended with exit code {result.exit_code}{said}")
        return result.stdout.decode("utf-8", "replace")
