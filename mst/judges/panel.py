"""Several judges asked about one trial, whose verdicts become one."""

from __future__ import annotations

import asyncio
import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, model_validator

from mst.config.registry import lookup
from mst.errors import ConfigError, GraderError, GradingFault, InvariantError
from mst.judges.contract import Finding, Judge, JudgeContext, Subject, bound_s, close
from mst.judges.options import Options, parse_options
from mst.judges.program import need_secrets
from mst.judges.verdict import first_fault
from mst.model.base import Model, digest
from mst.model.case import GraderSpec
from mst.model.score import SubScore, reaches
from mst.process.some import Some
from mst.process.together import together
from mst.providers.spending import total_usage

SETTINGS = ("name", "threshold", "secrets")


class Member(Options):
    """One judge of a panel, written as a judge is: `{rubric: {model: ...}}`, with `name` and `threshold` beside it."""

    type: str
    options: dict[str, Any] = {}
    name: str | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of this member in a majority; the panel's unless given."""
    secrets: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"type": data}
        if not isinstance(data, dict) or "type" in data:
            return data
        rest = [key for key in data if key not in SETTINGS]
        if len(rest) != 1:
            raise ValueError("one judge for each member, as in {rubric: {model: ...}}")
        options = data[rest[0]]
        judge = _kind(rest[0])
        if options is not None and not isinstance(options, dict):
            options = {judge.Options.main: options} if getattr(judge.Options, "main", "") else options
        return {"type": rest[0], "options": options or {}, **{key: data[key] for key in SETTINGS if key in data}}

    @model_validator(mode="after")
    def _options_fit(self) -> Member:
        try:
            _kind(self.type).Options.model_validate(self.options)
        except ValidationError as error:
            raise ValueError(f"{self.type}: {first_fault(error)}") from error
        return self


class PanelOptions(Options):
    """Options of `panel`."""

    main: ClassVar[str] = "members"

    members: list[dict[str, Any] | str] = Field(min_length=2, max_length=9)
    """The judges, written as judges are. Their files are listed under the panel's `files`; a panel is no member."""
    vote: Literal["mean", "majority"] = "mean"
    """`mean`: of the members' scores, against the threshold. `majority`: more than half of the members pass it."""
    needed: int | None = Field(default=None, ge=1)
    """How many members must have a verdict; all of them unless given."""

    @model_validator(mode="after")
    def _members_fit(self) -> PanelOptions:
        names = member_names(read_members(self.members))
        if self.needed is not None and self.needed > len(names):
            raise ValueError(f"'needed' is {self.needed}, but there are {len(names)} members")
        return self


class Panel:
    """Asks its members side by side. Each gets only the secrets that it asks for itself."""

    Options: ClassVar[type[Model]] = PanelOptions

    def __init__(self, spec: GraderSpec) -> None:
        self._spec = spec
        self._options = parse_options(spec, PanelOptions)
        self._members: dict[str, tuple[Judge, GraderSpec]] = {}
        for name, member in member_names(read_members(self._options.members)).items():
            made = _member_spec(member, name, spec)
            self._members[name] = (_kind(member.type)(made), made)

    @classmethod
    def secrets_of(cls, options: Mapping[str, Any]) -> list[str]:
        """Names of the secrets that its members ask for."""
        found: set[str] = set()
        for member in read_members(options.get("members", [])):
            found |= set(_member_secrets(member))
        return sorted(found)

    @classmethod
    def prompt_hash_of(cls, options: Mapping[str, Any]) -> str | None:
        """Of the texts that its members put around what they ask."""
        members = read_members(options.get("members", []))
        hashes = [getattr(_kind(member.type), "PROMPT_HASH", None) for member in members]
        return digest(hashes) if any(hashes) else None

    def bound_s(self, timeout_s: float) -> float:
        """See `Judge`: that of the slowest member."""
        return max(bound_s(judge, timeout_s) for judge, _ in self._members.values())

    async def preflight(self, context: JudgeContext) -> None:
        """Check every member.

        Raises:
            GraderError: a line for each member that cannot work.
        """
        need_secrets(self._spec.secrets, context)
        faults = []
        for name, (judge, spec) in self._members.items():
            try:
                await judge.preflight(_narrowed(context, spec))
            except GraderError as error:
                faults.append(f"{name}: {error}")
        if faults:
            raise GraderError("; ".join(faults))

    async def evaluate(self, subject: Subject, context: JudgeContext) -> Finding:
        """Ask every member about one trial.

        Raises:
            GraderError: fewer than `needed` members have a verdict.
        """
        asked = [self._ask(name, subject, context) for name in self._members]
        answers = dict(zip(self._members, await together(asked), strict=True))
        faults = {name: found for name, found in answers.items() if isinstance(found, GraderError)}
        found = {name: one for name, one in answers.items() if isinstance(one, Finding)}
        needed = self._options.needed or len(self._members)
        if len(found) < needed:
            said = "; ".join(f"{name}: {error}" for name, error in faults.items())
            raise GraderError(f"{len(found)} of {len(answers)} members have a verdict: {said}", _kind_of_fault(faults))
        return self._finding(found, faults)

    async def _ask(self, name: str, subject: Subject, context: JudgeContext) -> Finding | GraderError:
        judge, spec = self._members[name]
        limit_s = bound_s(judge, context.timeout_s)
        try:
            async with asyncio.timeout(limit_s):
                return await judge.evaluate(subject, _narrowed(context, spec))
        except TimeoutError:
            return GraderError(f"did not end within {limit_s:g} s", "timeout")
        except GraderError as error:
            return error
        except InvariantError:
            raise
        except Exception as error:  # noqa: BLE001 - a plugin's code may raise anything
            return GraderError(f"{type(error).__name__}: {error}")

    def _finding(self, found: Mapping[str, Finding], faults: Mapping[str, GraderError]) -> Finding:
        counted = {name: one for name, one in found.items() if not one.skipped and one.score is not None}
        usage = total_usage([one.usage for one in found.values()])
        if not counted:
            return Finding(skipped=True, reasoning="every member skipped it", usage=usage)
        passes = {name: self._passes(name, one) for name, one in counted.items()}
        mean = statistics.fmean(one.score or 0.0 for one in counted.values())
        parts = {
            name: SubScore(score=one.score or 0.0, passed=passes[name], reasoning=one.reasoning)
            for name, one in counted.items()
        }
        said = [f"{name} ({one.score:g}): {one.reasoning}" for name, one in counted.items() if one.reasoning]
        models = {name: one.model for name, one in found.items() if one.model is not None}
        metadata: dict[str, Any] = {"agree": len(set(passes.values())) == 1}
        metadata |= {"models": models} if models else {}
        metadata |= {"failed": {name: str(error) for name, error in faults.items()}} if faults else {}
        return Finding(
            score=mean,
            passed=sum(passes.values()) * 2 > len(passes) if self._options.vote == "majority" else None,
            reasoning="\n".join(said) or None,
            sub_scores=parts,
            usage=None if faults else usage,
            metadata=metadata,
        )

    def _passes(self, name: str, found: Finding) -> bool:
        if found.passed is not None:
            return found.passed
        return reaches(found.score or 0.0, self._members[name][1].threshold)

    async def aclose(self) -> None:
        """Close what members keep open."""
        for judge, _ in self._members.values():
            await close(judge)


def read_members(written: Sequence[Any]) -> list[Member]:
    """Members as they are written.

    Raises:
        ValueError: one is not well-formed; with its number, from 1.
    """
    found = []
    for number, one in enumerate(written, start=1):
        try:
            found.append(Member.model_validate(one))
        except ValidationError as error:
            raise ValueError(f"member {number}: {first_fault(error)}") from error
    return found


def member_names(members: Sequence[Member]) -> dict[str, Member]:
    """Members by name: their own, or the type, numbered from the second on.

    Raises:
        ValueError: two members have the same own name.
    """
    found: dict[str, Member] = {}
    for member in members:
        name = member.name or member.type
        if member.name is not None and name in found:
            raise ValueError(f"two members are called {name!r}")
        number = 1
        while name in found:
            number += 1
            name = f"{member.type}.{number}"
        found[name] = member
    return found


def _kind(name: str) -> Any:
    if name == "panel":
        raise ValueError("a panel is no member of a panel")
    try:
        return lookup("judges", name)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _member_secrets(member: Member) -> list[str]:
    asked = getattr(_kind(member.type), "secrets_of", None)
    return sorted({*member.secrets, *(asked(member.options) if asked is not None else [])})


def _member_spec(member: Member, name: str, panel: GraderSpec) -> GraderSpec:
    return GraderSpec(
        type=member.type,
        name=name,
        options=member.options,
        files=panel.files,
        secrets=_member_secrets(member),
        threshold=panel.threshold if member.threshold is None else member.threshold,
        retries=panel.retries,
        timeout_s=panel.timeout_s,
    )


def _narrowed(context: JudgeContext, spec: GraderSpec) -> JudgeContext:
    return dataclasses.replace(context, secrets=Some(context.secrets, spec.secrets))


def _kind_of_fault(faults: Mapping[str, GraderError]) -> GradingFault:
    """The members' kind when they agree on it: then the panel meets it at every case."""
    kinds = {error.kind for error in faults.values()}
    return kinds.pop() if len(kinds) == 1 else "grader"
