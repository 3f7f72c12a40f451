"""What a model on loopback is asked and answers: the words in which tests write its script."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Dialect = Literal["openai", "anthropic", "google"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request as the script sees it.

    Attributes:
        number: how many requests came before it, refused ones included.
        system: the instructions.
        prompt: everything the user said.
        schema: what the answer should look like, as far as the request says.
        turn: how many answers of the model the conversation has already.
        tools: names of the tools that are offered.
        results: what the tools that were called last gave back.
        body: the request as it came.
    """

    number: int
    dialect: Dialect
    model: str
    key: str
    system: str
    prompt: str
    schema: dict[str, Any] | None = None
    turn: int = 0
    tools: Sequence[str] = ()
    results: Sequence[str] = ()
    body: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ToolUse:
    """A tool that the model calls. Arguments as a text are sent as they are, whatever they hold."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What to answer.

    Attributes:
        value: a structured answer, given the way that the request asks for.
        text: a plain text instead.
        tools: tools to call, beside a text if there is one.
        refusal: the model declines, in these words.
        cut: the answer ended at the token limit.
        status: another status than 200, with `body` and `retry_after_s`.
        body: what is sent instead of an answer, whatever the status: data, or bytes as they are.
        packed: send the body as gzip.
        stall_s: wait so long before answering; the server's end ends it earlier.
        truncated: close the connection in the middle of the body.
        usage: whether to say how many tokens were used.
    """

    value: Any = None
    text: str | None = None
    tools: Sequence[ToolUse] = ()
    refusal: str | None = None
    cut: bool = False
    status: int = 200
    body: Any = None
    packed: bool = False
    retry_after_s: float | None = None
    stall_s: float = 0.0
    truncated: bool = False
    usage: bool = True


Script = Callable[[Call], Reply]


def verdict(score: float = 1.0, reasoning: str = "fine", **more: Any) -> Reply:
    """A well-formed verdict of a rubric."""
    return Reply(value={"score": score, "reasoning": reasoning, **more})


def preference(slot: str, reasoning: str = "fine", **more: Any) -> Reply:
    """A well-formed pairwise answer: `first`, `second` or `tie`."""
    return Reply(value={"preference": slot, "reasoning": reasoning, **more})


def failure(status: int, message: str, *, code: str | None = None, retry_after_s: float | None = None) -> Reply:
    """An error as providers send it; the body's form fits all three dialects."""
    body = {"error": {"message": message, "type": code or "error", "code": code, "status": code}}
    return Reply(status=status, body=body, retry_after_s=retry_after_s)


EXPIRED_KEY = failure(401, "The key has expired.", code="invalid_api_key")
NO_MONEY = failure(402, "Insufficient credits.", code="insufficient_credits")
BROKEN = failure(500, "Something went wrong on our side.", code="server_error")
OVERLOADED = failure(503, "Overloaded.", code="overloaded_error")


def too_many(retry_after_s: float | None = 1.0) -> Reply:
    """429, with or without `Retry-After`."""
    return failure(429, "Rate limit reached.", code="rate_limit_exceeded", retry_after_s=retry_after_s)


def in_turn(replies: Sequence[Reply], then: Reply | Script) -> Script:
    """These replies first, one a request, then another reply or script."""
    left = deque(replies)

    def script(call: Call) -> Reply:
        try:
            return left.popleft()
        except IndexError:
            return then if isinstance(then, Reply) else then(call)

    return script


def turns(*replies: Reply) -> Script:
    """These replies by turn of the conversation; the last one again, should it go on. For conversations at once."""
    return lambda call: replies[min(call.turn, len(replies) - 1)]
