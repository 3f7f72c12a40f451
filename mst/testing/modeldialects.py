"""The dialects of OpenAI, Anthropic and Google: a request read, and an answer written, as providers do. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from email.message import Message
from typing import Any

from mst.testing.modelscript import Call, Reply, ToolUse


def read(path: str, headers: Message, request: dict[str, Any]) -> Call:
    """A request in the dialect that its path belongs to. It has no number yet."""
    if path.endswith("/messages"):
        return _read_anthropic(headers, request)
    if ":generateContent" in path:
        return _read_google(path, headers, request)
    return _read_openai(headers, request)


def write(call: Call, reply: Reply, used: tuple[int, int] | None) -> dict[str, Any]:
    """An answer of status 200 in the request's dialect; `used` are the tokens in and out that it tells."""
    match call.dialect:
        case "openai":
            return _write_openai(call, reply, used)
        case "anthropic":
            return _write_anthropic(call, reply, used)
        case "google":
            return _write_google(call, reply, used)


def said(reply: Reply) -> str:
    """What the model says in an answer, in one text."""
    if reply.tools:
        return (reply.text or "") + json.dumps([[use.name, use.arguments] for use in reply.tools])
    return reply.refusal or reply.text or json.dumps(reply.value)


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def _bearer(headers: Message) -> str:
    return headers.get("Authorization", "").removeprefix("Bearer ")


def _read_openai(headers: Message, request: dict[str, Any]) -> Call:
    messages = request.get("messages", [])
    tools = request.get("tools") or []
    given = (request.get("response_format") or {}).get("json_schema") or {}
    return Call(
        number=0,
        dialect="openai",
        model=request.get("model", ""),
        key=_bearer(headers),
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


def _read_anthropic(headers: Message, request: dict[str, Any]) -> Call:
    tools = request.get("tools") or []
    return Call(
        number=0,
        dialect="anthropic",
        model=request.get("model", ""),
        key=headers.get("x-api-key") or _bearer(headers),
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


def _text_and_uses(call: Call, reply: Reply) -> tuple[str | None, Sequence[ToolUse]]:
    """A text, tools to call, or both. A value goes as the call of the tool that the request wants it by, if it does."""
    text = reply.refusal or reply.text
    if text is not None or reply.tools:
        return text, reply.tools
    tool = (call.schema or {}).get("tool")
    return (json.dumps(reply.value), []) if tool is None else (None, [ToolUse(tool, reply.value)])


def _write_anthropic(call: Call, reply: Reply, used: tuple[int, int] | None) -> dict[str, Any]:
    text, uses = _text_and_uses(call, reply)
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": f"toolu_{call.number}_{index}", "name": use.name, "input": use.arguments}
        for index, use in enumerate(uses)
    ]
    if text is not None:
        content.insert(0, {"type": "text", "text": text})
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


def _read_google(path: str, headers: Message, request: dict[str, Any]) -> Call:
    declared = [one for tool in request.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    return Call(
        number=0,
        dialect="google",
        model=path.rpartition("/models/")[2].partition(":")[0],
        key=headers.get("x-goog-api-key", ""),
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
    text, uses = _text_and_uses(call, reply)
    parts: list[dict[str, Any]] = [{"functionCall": {"name": use.name, "args": use.arguments}} for use in uses]
    if text is not None:
        parts.insert(0, {"text": text})
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
