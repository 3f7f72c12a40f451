"""A model for coding agents, on loopback: it answers by script, streams, and asks for tools.

Three dialects are spoken as agents speak them: Anthropic's messages, OpenAI's responses, OpenAI's chat completions. A
script sees how many turns the conversation has had and says the next one, so that agents may ask at the same time.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_REQUEST_BYTES = 16 * 1024**2
KEPT = 1000
INPUT_TOKENS = 100
OUTPUT_TOKENS = 10
"""Said to be used by every turn."""


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A tool that the model asks for."""

    name: str
    arguments: dict[str, Any]
    namespace: str | None = None
    """Of OpenAI's responses, where tools of a server come as a group."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the model says next: words, tools to call, or an error."""

    text: str = ""
    tools: Sequence[ToolUse] = ()
    status: int = 200
    stall_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request.

    Attributes:
        turn: how many turns of the model the conversation has already.
        key: as sent.
        tools: names of the tools that the agent offers.
        body: the request as it came.
    """

    path: str
    turn: int
    key: str
    model: str
    tools: Sequence[str]
    body: dict[str, Any] = field(repr=False)


Script = Callable[[Asked], Turn]


def steps(*turns: Turn) -> Script:
    """These turns in order; the last one again, should the agent go on."""
    return lambda asked: turns[min(asked.turn, len(turns) - 1)]


@dataclass(kw_only=True)
class AgentModel:
    """A running server."""

    url: str
    """Its root; dialects have their own paths below."""
    script: Script
    key: str | None = None
    asked: deque[Asked] = field(default_factory=lambda: deque(maxlen=KEPT))
    refused: int = 0
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def agent_model(script: Script, *, key: str | None = None) -> Iterator[AgentModel]:
    """Start a server, and stop it at the end. With `key`, requests with another key get 401."""
    server = _Server(script, key)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.model
    finally:
        server.model.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Script, key: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = AgentModel(url=f"http://127.0.0.1:{self.server_address[1]}", script=script, key=key)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing: tests look at `asked`."""

    def do_HEAD(self) -> None:
        self._answer(200, b"")

    def do_GET(self) -> None:
        self._json(404, {"error": {"message": "no such page", "type": "not_found_error"}})

    def do_POST(self) -> None:
        model = self.server.model
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(min(size, MAX_REQUEST_BYTES)) or b"{}")
        path = self.path.partition("?")[0]
        key = self._key()
        if model.key is not None and key != model.key:
            model.refused += 1
            self._json(401, {"type": "error", "error": {"type": "authentication_error", "message": "bad key"}})
            return
        dialect = _DIALECTS.get(path.removeprefix("/v1"))
        if path.endswith("/count_tokens"):
            self._json(200, {"input_tokens": INPUT_TOKENS})
        elif dialect is None:
            self._json(404, {"error": {"message": f"no such path: {path}", "type": "not_found_error"}})
        else:
            self._say(dialect, path, key, body)

    def _key(self) -> str:
        return self.headers.get("x-api-key") or (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _say(self, dialect: _Dialect, path: str, key: str, body: dict[str, Any]) -> None:
        asked = Asked(
            path=path,
            turn=dialect.turns(body),
            key=key,
            model=str(body.get("model")),
            tools=[_tool_name(tool) for tool in body.get("tools") or []],
            body=body,
        )
        model = self.server.model
        model.asked.append(asked)
        turn = model.script(asked)
        model.over.wait(turn.stall_s)
        if turn.status != 200:
            self._json(turn.status, {"type": "error", "error": {"type": "api_error", "message": "by script"}})
        elif body.get("stream"):
            self._answer(200, b"".join(dialect.stream(asked, turn)), "text/event-stream")
        else:
            self._json(200, dialect.whole(asked, turn))

    def _json(self, status: int, value: Any) -> None:
        self._answer(status, json.dumps(value).encode())

    def _answer(self, status: int, data: bytes, kind: str = "application/json") -> None:
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


def _tool_name(tool: dict[str, Any]) -> str:
    return str(tool.get("name") or (tool.get("function") or {}).get("name") or tool.get("type"))


def _event(value: dict[str, Any], name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


@dataclass(frozen=True)
class _Dialect:
    turns: Callable[[dict[str, Any]], int]
    whole: Callable[[Asked, Turn], dict[str, Any]]
    stream: Callable[[Asked, Turn], Iterator[bytes]]


def _by_role(field_name: str) -> Callable[[dict[str, Any]], int]:
    def count(body: dict[str, Any]) -> int:
        return sum(1 for message in body.get(field_name) or [] if message.get("role") == "assistant")

    return count


# Anthropic's messages.


def _message(asked: Asked, turn: Turn) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{asked.turn}_{number}", "name": tool.name, "input": tool.arguments}
        for number, tool in enumerate(turn.tools)
    ]
    return {
        "id": f"msg_{asked.turn}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": "tool_use" if turn.tools else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }


def _message_stream(asked: Asked, turn: Turn) -> Iterator[bytes]:
    whole = _message(asked, turn)
    start = {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1}}
    yield _event({"type": "message_start", "message": start}, "message_start")
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = (
                {**block, "input": {}},
                {
                    "type": "input_json_delta",
                    "partial_json": json.dumps(block["input"]),
                },
            )
        yield _event({"type": "content_block_start", "index": index, "content_block": empty}, "content_block_start")
        yield _event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
        yield _event({"type": "content_block_stop", "index": index}, "content_block_stop")
    closing = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event(
        {"type": "message_delta", "delta": closing, "usage": {"output_tokens": OUTPUT_TOKENS}}, "message_delta"
    )
    yield _event({"type": "message_stop"}, "message_stop")


# OpenAI's responses.


def _response_turns(body: dict[str, Any]) -> int:
    items = body.get("input")
    outputs = [item for item in items or [] if isinstance(item, dict)] if isinstance(items, list) else []
    return sum(1 for item in outputs if str(item.get("type", "")).endswith("_call_output"))


def _response(asked: Asked, turn: Turn) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        message = {"type": "message", "id": f"msg_{asked.turn}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [part]})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{asked.turn}_{number}",
            "call_id": f"call_{asked.turn}_{number}",
            "name": tool.name,
            "arguments": json.dumps(tool.arguments),
            "status": "completed",
            **({"namespace": tool.namespace} if tool.namespace else {}),
        }
        for number, tool in enumerate(turn.tools)
    ]
    return {
        "id": f"resp_{asked.turn}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": asked.model,
        "output": output,
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def _response_stream(asked: Asked, turn: Turn) -> Iterator[bytes]:
    whole = _response(asked, turn)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield _event({"type": "response.created", "response": begun}, "response.created")
    for index, item in enumerate(whole["output"]):
        for kind in ("added", "done"):
            name = f"response.output_item.{kind}"
            yield _event({"type": name, "output_index": index, "item": item}, name)
    yield _event({"type": "response.completed", "response": whole}, "response.completed")


# OpenAI's chat completions.


def _completion(asked: Asked, turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
    if turn.tools:
        message["tool_calls"] = [
            {
                "id": f"call_{asked.turn}_{number}",
                "type": "function",
                "function": {"name": tool.name, "arguments": json.dumps(tool.arguments)},
            }
            for number, tool in enumerate(turn.tools)
        ]
    return {
        "id": f"chatcmpl-{asked.turn}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if turn.tools else "stop"}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def _completion_stream(asked: Asked, turn: Turn) -> Iterator[bytes]:
    whole = _completion(asked, turn)
    choice = whole["choices"][0]
    calls = [{"index": number, **call} for number, call in enumerate(choice["message"].get("tool_calls", []))]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    common = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    yield _event({**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    yield _event({**common, "choices": [], "usage": whole["usage"]})
    yield b"data: [DONE]\n\n"


_DIALECTS = {
    "/messages": _Dialect(_by_role("messages"), _message, _message_stream),
    "/responses": _Dialect(_response_turns, _response, _response_stream),
    "/chat/completions": _Dialect(_by_role("messages"), _completion, _completion_stream),
}
