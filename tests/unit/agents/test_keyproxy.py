"""The proxy for the key: who may use it, whose turn it is, and what the provider said last."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from mst.agents.keyproxy import KeyProxy
from mst.model.case import TrialLimits
from mst.testing.modelscript import EXPIRED_KEY, in_turn, verdict
from mst.testing.modelserver import model_server

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()


async def post(proxy, path="/v1/chat/completions", key=None):
    """One request through the proxy; the status that came back."""
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key or proxy.token}"]
    head += [f"Content-Length: {len(BODY)}", "", ""]
    writer.write("\r\n".join(head).encode() + BODY)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    server.close()
    await server.wait_closed()
    return int(answer.split(b" ", 2)[1])


def proxy_to(url, **more):
    limits = more.pop("limits", TrialLimits())
    return KeyProxy(upstream=url, key="the-key", limits=limits, reached=more.pop("reached", lambda _: None), **more)


def test_the_provider_gets_the_key_and_the_program_never_has_it():
    with model_server(verdict()) as server:
        proxy = proxy_to(server.url)
        assert asyncio.run(post(proxy)) == 200
        assert asyncio.run(post(proxy, key="the-key")) == 401
        assert dict(server.keys) == {"the-key": 1}


def test_each_call_of_the_model_waits_for_its_turn():
    entered = []

    @asynccontextmanager
    async def turn():
        entered.append("in")
        yield
        entered.append("out")

    with model_server(verdict()) as server:
        proxy = proxy_to(server.url, turn=turn)
        asyncio.run(post(proxy))
        asyncio.run(post(proxy, path="/v1/models"))
    assert entered == ["in", "out"]


def test_it_says_what_the_provider_refused_last():
    with model_server(in_turn([EXPIRED_KEY], verdict())) as server:
        proxy = proxy_to(server.url)
        assert proxy.refused is None
        assert asyncio.run(post(proxy)) == 401
        assert proxy.refused == 401
        assert asyncio.run(post(proxy)) == 200
        assert proxy.refused is None
    assert asyncio.run(post(proxy)) == 502
    assert proxy.refused == 502


@pytest.mark.parametrize("turns", [1, 2])
def test_the_limit_of_turns_is_told_when_another_is_wanted(turns):
    told = []
    with model_server(verdict()) as server:
        proxy = proxy_to(server.url, limits=TrialLimits(turns=turns), reached=told.append)
        assert [asyncio.run(post(proxy)) for _ in range(turns)] == [200] * turns
        assert told == []
        assert asyncio.run(post(proxy)) == 403
    assert told == ["turns"]
