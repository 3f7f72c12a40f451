"""Assertions on tool calls. They need structured evidence; on anything less they fail with that reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from mst.grade.assertions.base import Assertion, Text, shown, verdict
from mst.grade.assertions.matching import assign, assign_in_order
from mst.grade.assertions.text import same_json
from mst.judges.contract import Subject
from mst.judges.options import Options
from mst.model.score import GraderScore
from mst.model.transcript import Event

ToolKind = Literal["tool_call", "skill", "command", "subagent", "tool_search"]
Count = Annotated[int, Field(ge=0)]


class ExpectedCall(Options):
    """A call that is looked for. What is not given is not compared."""

    name: Text
    kind: ToolKind | None = None
    source: Literal["mcp", "builtin"] | None = None
    server: Text | None = None
    arguments: dict[str, Any] | None = None
    """Each key must be in the call's arguments with this value; mappings inside are compared the same way."""
    required: bool = True


class TriggeredOptions(Options):
    """Options of `tools_triggered`."""

    main: ClassVar[str] = "calls"

    calls: Annotated[list[ExpectedCall], Field(min_length=1)]
    order: Literal["any", "strict"] = "any"
    """`strict`: the calls come in this order; others may come between."""
    exclusive: bool = False
    """No call that matches none of `calls`."""


class CountOptions(Options):
    """Options of `tool_call_count`; bounds on the number of tool calls."""

    main: ClassVar[str] = "exact"

    min: Count | None = None
    max: Count | None = None
    exact: Count | None = None

    @model_validator(mode="after")
    def _bounds(self) -> CountOptions:
        if self.min is None and self.max is None and self.exact is None:
            raise ValueError("give min, max or exact")
        if self.exact is not None and (self.min is not None or self.max is not None):
            raise ValueError("exact stands alone")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("min is above max")
        return self


def tools_triggered(subject: Subject, options: TriggeredOptions) -> GraderScore:
    """Every required call was made, each by an event of its own.

    `recall`: share of required calls that were made. `precision`: share of the trial's calls that match an expected
    one. Either is absent when there is nothing to take a share of.
    """
    if (refused := _no_evidence(subject)) is not None:
        return refused
    events = tool_events(subject, kinds={call.kind for call in options.calls if call.kind})
    fits = [[matches(event, call) for event in events] for call in options.calls]
    required = [call.required for call in options.calls]
    made = assign_in_order(fits, required) if options.order == "strict" else assign(fits, required)
    faults = _missing(options, fits, made)
    expected = [any(row[index] for row in fits) for index in range(len(events))]
    if options.exclusive:
        extras = sorted({event.name for event, wanted in zip(events, expected, strict=True) if not wanted})
        faults += [f"unexpected call of {shown(name)}" for name in extras]
    needed = sum(required)
    found = sum(1 for index in made if required[index])
    return verdict(faults, "all expected calls were made").model_copy(
        update={
            "precision": sum(expected) / len(events) if events else None,
            "recall": found / needed if needed else None,
        }
    )


def tool_call_count(subject: Subject, options: CountOptions) -> GraderScore:
    """The number of tool calls is within bounds."""
    if (refused := _no_evidence(subject)) is not None:
        return refused
    count = len(tool_events(subject))
    faults = []
    if options.exact is not None and count != options.exact:
        faults.append(f"{count} tool calls, expected {options.exact}")
    if options.min is not None and count < options.min:
        faults.append(f"{count} tool calls, expected at least {options.min}")
    if options.max is not None and count > options.max:
        faults.append(f"{count} tool calls, expected at most {options.max}")
    return verdict(faults, f"{count} tool calls")


def tool_events(subject: Subject, kinds: set[ToolKind] | None = None) -> list[Event]:
    """A trial's tool calls, and its events of other kinds that are asked for, in order."""
    transcript = subject.record.transcript
    wanted = {"tool_call", *(kinds or set())}
    return [] if transcript is None else [event for event in transcript.events if event.kind in wanted]


def matches(event: Event, call: ExpectedCall) -> bool:
    """Whether an event is what a call describes. Without a `kind`, only tool calls are meant."""
    return (
        event.name == call.name
        and event.kind == (call.kind or "tool_call")
        and (call.source is None or event.source == call.source)
        and (call.server is None or event.server == call.server)
        and (call.arguments is None or holds(event.arguments, call.arguments))
    )


def holds(value: Any, part: Any) -> bool:
    """Whether a value has everything that a partial one names; lists and plain values are compared whole."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(key in value and holds(value[key], part[key]) for key in part)
    return same_json(value, part)


def _missing(options: TriggeredOptions, fits: Sequence[Sequence[bool]], made: set[int]) -> list[str]:
    faults = []
    for index, call in enumerate(options.calls):
        if index in made or not call.required:
            continue
        if any(fits[index]):
            why = "out of order" if options.order == "strict" else "fewer times than expected"
            faults.append(f"{shown(call.name)} was called {why}")
        else:
            what = f" with {shown(call.arguments)}" if call.arguments else ""
            faults.append(f"{shown(call.name)} was not called{what}")
    return faults


def _no_evidence(subject: Subject) -> GraderScore | None:
    evidence = subject.record.evidence
    if evidence == "structured":
        return None
    return GraderScore(
        passed=False, details=f"evidence is {evidence!r}, not 'structured': what was called is not known for sure"
    )


TOOL_ASSERTIONS: dict[str, Assertion] = {
    "tools_triggered": Assertion(Options=TriggeredOptions, grade=tools_triggered),
    "tool_call_count": Assertion(Options=CountOptions, grade=tool_call_count),
}
