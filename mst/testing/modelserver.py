"""A model behind HTTP on loopback that answers by script: the dialects of OpenAI, Anthropic and Google.

Judges and the `llm` client are tested against it instead of a mock: what goes over the wire is what would go to a
provider, and what comes back is what providers send when they are well, slow, busy, broke or broken.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Dialect = Literal["openai", "anthropic", "google"]

KEPT_CALLS = 1000
KEPT_KEYS = 100
CHARACTERS_A_TOKEN = 4
MAX_REQUEST_BYTES = 16 * 1024**2


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


@dataclass
class RateRule:
    """A provider's limit as providers keep it: a bucket that fills evenly. Not thread-safe by itself.

    Attributes:
        per_minute: requests, or tokens.
        burst: how many may come at once.
    """

    per_minute: float
    burst: float
    _level: float = field(init=False)
    _at: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._level = self.burst

    def take(self, amount: float, now: float) -> float:
        """Take from the bucket; 0, or how many seconds to wait when there is not enough."""
        elapsed = 0.0 if self._at is None else now - self._at
        self._at = now
        self._level = min(self.burst, self._level + elapsed * self.per_minute / 60)
        if self._level >= amount:
            self._level -= amount
            return 0.0
        return (amount - self._level) * 60 / self.per_minute


@dataclass
class WindowRule:
    """A provider's limit counted over a window. Not thread-safe by itself.

    Attributes:
        per_window: requests that may come in one.
        window_s: its length.
        sliding: any time of that length; else one begins with the first request, and one after the other from then.
    """

    per_window: int
    window_s: float = 60.0
    sliding: bool = True
    _came: deque[float] = field(default_factory=deque, init=False)
    _began: float | None = field(default=None, init=False)

    def take(self, amount: float, now: float) -> float:
        """Count a request; 0, or how many seconds to wait when there were enough. Refused ones are not counted."""
        self._began = now if self._began is None else self._began
        began = now - self.window_s if self.sliding else now - (now - self._began) % self.window_s
        while self._came and self._came[0] < began:
            self._came.popleft()
        if len(self._came) < self.per_window:
            self._came.append(now)
            return 0.0
        return max(0.001, (self._came[0] if self.sliding else began) + self.window_s - now)


@dataclass(frozen=True)
class AllRules:
    """Several limits at once. A request that one refuses is counted by the others all the same, to be strict."""

    rules: Sequence[RateRule | WindowRule]

    def take(self, amount: float, now: float) -> float:
        """Ask every rule; the longest wait."""
        return max(rule.take(amount, now) for rule in self.rules)


class ModelServer:
    """What the server does and has seen. Thread-safe; memory is bounded.

    Attributes:
        script: decides each answer; may be replaced at any time.
        limit, token_limit: answer 429 beyond them, with `Retry-After`.
        calls: the last 1,000 requests that the script answered.
        keys: how often each key was used; at most 100 different ones.
        statuses: answers by status.
        tokens: in and out, over all answers of status 200.
        most_at_once: the largest number of requests that were open at a time.
    """

    def __init__(self, url: str, script: Script) -> None:
        self.url = url
        self.script = script
        self.limit: RateRule | WindowRule | AllRules | None = None
        self.token_limit: RateRule | None = None
        self.calls: deque[Call] = deque(maxlen=KEPT_CALLS)
        self.keys: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.tokens: Counter[str] = Counter()
        self.most_at_once = 0
        self.first_at: float | None = None
        self.last_at: float | None = None
        self.ended = threading.Event()
        self._number = 0
        self._open = 0
        self._lock = threading.Lock()

    @property
    def openai_url(self) -> str:
        """Base URL for clients of OpenAI's dialect."""
        return f"{self.url}/v1"

    def answer(self, call: Call) -> Reply:
        """Count a request and decide about it."""
        with self._lock:
            call = Call(**{**vars(call), "number": self._number})
            self._number += 1
            if call.key in self.keys or len(self.keys) < KEPT_KEYS:
                self.keys[call.key] += 1
            now = time.monotonic()
            self.first_at = now if self.first_at is None else self.first_at
            self.last_at = now
            wait_s = self._refused_for_s(call, now)
            if wait_s > 0:
                return too_many(wait_s)
            self.calls.append(call)
            return self.script(call)

    def opened(self) -> None:
        """A request came in."""
        with self._lock:
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)

    def closed(self, status: int, used: tuple[int, int]) -> None:
        """A request was answered."""
        with self._lock:
            self._open -= 1
            self.statuses[status] += 1
            if status == 200:
                self.tokens.update({"in": used[0], "out": used[1]})

    def _refused_for_s(self, call: Call, now: float) -> float:
        waits = [self.limit.take(1, now)] if self.limit is not None else []
        if self.token_limit is not None:
            waits.append(self.token_limit.take(tokens_of(call.system + call.prompt), now))
        return max(waits, default=0.0)


def tokens_of(text: str) -> int:
    """Tokens as this server counts them: a quarter of the characters, rounded up."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


@contextmanager
def model_server(script: Script | Reply, *, host: str = "127.0.0.1") -> Iterator[ModelServer]:
    """A model server on a free port of loopback, or of another address; stopped afterwards, what stalls is let go."""
    server = _Server((host, 0), _Handler)
    state = ModelServer(
        f"http://{host}:{server.server_address[1]}", script if callable(script) else lambda _call: script
    )
    server.model = state  # type: ignore[attr-defined]  # read back by the handler
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512  # judges come in crowds; a refused connection would be a fault of the test's


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": []}, None)

    def do_POST(self) -> None:
        state: ModelServer = self.server.model  # type: ignore[attr-defined]  # set by model_server
        length = int(self.headers.get("Content-Length", 0))
        if length > MAX_REQUEST_BYTES:
            self.close_connection = True
            self._send(413, {"error": {"message": "too large"}}, None)
            return
        request = json.loads(self.rfile.read(length))
        state.opened()
        status, used = 500, (0, 0)
        try:
            call = _READERS[self._dialect()](self, request)
            reply = state.answer(call)
            status = reply.status
            if reply.stall_s:
                state.ended.wait(reply.stall_s)
            if status != 200:
                self._send(status, reply.body, reply.retry_after_s)
                return
            used = (tokens_of(call.system + call.prompt), tokens_of(_plain(reply)))
            document = _WRITERS[call.dialect](call, reply, used if reply.usage else None)
            self._send(200, document, None, truncated=reply.truncated)
        finally:
            state.closed(status, used)

    def _dialect(self) -> Dialect:
        if self.path.endswith("/messages"):
            return "anthropic"
        return "google" if ":generateContent" in self.path else "openai"

    def _send(self, status: int, document: Any, retry_after_s: float | None, *, truncated: bool = False) -> None:
        body = json.dumps(document).encode()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if retry_after_s is not None:
                self.send_header("Retry-After", f"{retry_after_s:.3f}".rstrip("0").rstrip("."))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if truncated else body)
        if truncated:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing: tests read what was seen from the server object."""


def _plain(reply: Reply) -> str:
    if reply.tools:
        return (reply.text or "") + json.dumps([[use.name, use.arguments] for use in reply.tools])
    return reply.refusal or reply.text or json.dumps(reply.value)


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def _bearer(handler: _Handler) -> str:
    return handler.headers.get("Authorization", "").removeprefix("Bearer ")


def _read_openai(handler: _Handler, request: dict[str, Any]) -> Call:
    messages = request.get("messages", [])
    tools = request.get("tools") or []
    given = (request.get("response_format") or {}).get("json_schema") or {}
    return Call(
        number=0,
        dialect="openai",
        model=request.get("model", ""),
        key=_bearer(handler),
        system="\n".join(_texts(one["content"]) for one in messages if one["role"] in ("system", "developer")),
        prompt="\n".join(_texts(one["content"]) for one in messages if one["role"] == "user"),
        schema={"tool": tools[0]["function"]["name"], **tools[0]["function"]["parameters"]} if tools
        else given.get("schema"),
        turn=sum(one["role"] == "assistant" for one in messages),
        tools=[tool["function"]["name"] for tool in tools],
        results=_last(_texts(one["content"]) if one["role"] == "tool" else None for one in messages),
        body=request,
    )  # fmt: skip


def _write_openai(call: Call, reply: Reply, used: tuple[int, int] | None) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": reply.refusal}
    tool = (call.schema or {}).get("tool")
    if reply.refusal is None and (reply.text is not None or reply.tools):
        message["content"] = reply.text
        if reply.tools:
            message["tool_calls"] = [
                {"id": f"call_{call.number}_{index}", "type": "function", "function": _openai_use(use)}
                for index, use in enumerate(reply.tools)
            ]
    elif reply.refusal is None and tool is not None:
        function = {"name": tool, "arguments": json.dumps(reply.value)}
        message["tool_calls"] = [{"id": f"call_{call.number}", "type": "function", "function": function}]
    elif reply.refusal is None:
        message["content"] = json.dumps(reply.value)
    why = "length" if reply.cut else "tool_calls" if message.get("tool_calls") else "stop"
    document = {
        "id": f"chatcmpl-{call.number}",
        "object": "chat.completion",
        "created": 1,
        "model": call.model,
        "choices": [{"index": 0, "message": message, "finish_reason": why, "logprobs": None}],
    }
    if used is not None:
        document["usage"] = {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)}
    return document


def _openai_use(use: ToolUse) -> dict[str, Any]:
    given = use.arguments if isinstance(use.arguments, str) else json.dumps(use.arguments)
    return {"name": use.name, "arguments": given}


def _last(results: Iterable[str | None]) -> list[str]:
    """The texts since the last None: of the tools that were called last."""
    found: list[str] = []
    for result in results:
        found = [*found, result] if result is not None else []
    return found


def _read_anthropic(handler: _Handler, request: dict[str, Any]) -> Call:
    tools = request.get("tools") or []
    return Call(
        number=0,
        dialect="anthropic",
        model=request.get("model", ""),
        key=handler.headers.get("x-api-key") or _bearer(handler),
        system=_texts(request.get("system")),
        prompt="\n".join(_texts(one["content"]) for one in request.get("messages", []) if one["role"] == "user"),
        schema={"tool": tools[0]["name"], **tools[0]["input_schema"]} if tools else None,
        turn=sum(one["role"] == "assistant" for one in request.get("messages", [])),
        tools=[tool["name"] for tool in tools],
        results=[_texts(part.get("content")) for part in _parts(request) if part.get("type") == "tool_result"],
        body=request,
    )


def _parts(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Parts of the last message."""
    content = (request.get("messages") or [{}])[-1].get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _write_anthropic(call: Call, reply: Reply, used: tuple[int, int] | None) -> dict[str, Any]:
    tool = (call.schema or {}).get("tool")
    text = reply.refusal or reply.text
    uses = list(reply.tools)
    if text is None and not uses and tool is not None:
        uses = [ToolUse(tool, reply.value)]
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": f"toolu_{call.number}_{index}", "name": use.name, "input": use.arguments}
        for index, use in enumerate(uses)
    ]
    if text is not None or not uses:
        content.insert(0, {"type": "text", "text": text if text is not None else json.dumps(reply.value)})
    why = "refusal" if reply.refusal is not None else "tool_use" if uses else "end_turn"
    why = "max_tokens" if reply.cut else why
    return {
        "id": f"msg_{call.number}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": content,
        "stop_reason": why,
        "stop_sequence": None,
        "usage": {"input_tokens": (used or (0, 0))[0], "output_tokens": (used or (0, 0))[1]},
    }


def _read_google(handler: _Handler, request: dict[str, Any]) -> Call:
    declared = [one for tool in request.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    return Call(
        number=0,
        dialect="google",
        model=handler.path.rpartition("/models/")[2].partition(":")[0],
        key=handler.headers.get("x-goog-api-key", ""),
        system=_texts((request.get("systemInstruction") or {}).get("parts")),
        prompt="\n".join(_texts(one.get("parts")) for one in request.get("contents", []) if one.get("role") == "user"),
        schema={"tool": declared[0]["name"]} if declared else None,
        turn=sum(one.get("role") == "model" for one in request.get("contents", [])),
        tools=[one["name"] for one in declared],
        results=_google_results(request),
        body=request,
    )


def _google_results(request: dict[str, Any]) -> list[str]:
    parts = (request.get("contents") or [{}])[-1].get("parts", [])
    return [json.dumps(part["functionResponse"].get("response")) for part in parts if "functionResponse" in part]


def _write_google(call: Call, reply: Reply, used: tuple[int, int] | None) -> dict[str, Any]:
    tool = (call.schema or {}).get("tool")
    text = reply.refusal or reply.text
    uses = list(reply.tools)
    if text is None and not uses and tool is not None:
        uses = [ToolUse(tool, reply.value)]
    parts: list[dict[str, Any]] = [{"functionCall": {"name": use.name, "args": use.arguments}} for use in uses]
    if text is not None or not uses:
        parts.insert(0, {"text": text if text is not None else json.dumps(reply.value)})
    why = "SAFETY" if reply.refusal is not None else "MAX_TOKENS" if reply.cut else "STOP"
    document: dict[str, Any] = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": why, "index": 0}],
        "modelVersion": call.model,
    }
    if used is not None:
        document["usageMetadata"] = {
            "promptTokenCount": used[0], "candidatesTokenCount": used[1], "totalTokenCount": sum(used)
        }  # fmt: skip
    return document


_READERS: dict[Dialect, Callable[[_Handler, dict[str, Any]], Call]] = {
    "openai": _read_openai,
    "anthropic": _read_anthropic,
    "google": _read_google,
}
_WRITERS: dict[Dialect, Callable[[Call, Reply, tuple[int, int] | None], dict[str, Any]]] = {
    "openai": _write_openai,
    "anthropic": _write_anthropic,
    "google": _write_google,
}
