"""The mcp client before it starts a server: options, calls, preflight."""

from __future__ import annotations

import asyncio

import pytest

from mst.clients.mcp import Mcp
from mst.errors import ClientError, ConfigError
from mst.model.case import Case, Variant
from mst.testing.client import one_run

SERVERS = {"a": {"command": "true"}, "b": {"command": "true"}}


def variant(servers=None, **options):
    return Variant(name="v", client="mcp", client_options=options, servers=SERVERS if servers is None else servers)


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ({}, "at least one server"),
        ({"a": {"url": "ftp://x"}}, r"servers\.a\.url"),
        ({"a": {"url": "http://user:pass@x"}}, r"servers\.a\.url"),
        ({"a": {"url": "http://x", "headers": {"Bad name": "x"}}}, r"servers\.a\.headers"),
        ({"a": {"url": "http://x", "args": []}}, r"servers\.a\.args"),
        ({"a": {"comand": "x"}}, r"servers\.a\.com"),
        ({"a": {"command": "x", "args": "y"}}, r"servers\.a\.args"),
    ],
)
def test_faults_of_servers_are_said_with_their_label(servers, said):
    with pytest.raises(ConfigError, match=said):
        Mcp(variant(servers))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("text", "calls"),
        ({}, "calls"),
        ({"calls": []}, "calls"),
        ({"tool": "t", "server": "a", "arguments": "x"}, "arguments"),
        ({"tool": "t", "server": "a", "argumnets": {}}, "argumnets"),
        ({"tool": "t"}, "name its server; known: a, b"),
        ({"tool": "t", "server": "c"}, "name its server"),
    ],
)
def test_an_input_that_is_no_call_is_said_with_its_case(tmp_path, given, said):
    client = Mcp(variant())
    case = Case(id="case-9", dataset="d", input=given)
    with pytest.raises(ClientError, match=said) as caught:
        asyncio.run(one_run(client, case, variant(), tmp_path))
    assert "case-9" in str(caught.value)
    assert caught.value.kind == "harness"


def test_preflight_finds_missing_programs_and_workspaces_that_a_shared_server_lacks():
    servers = {"x": {"command": "no-such-server"}, "y": {"command": "true", "args": ["-r", "{{workspace}}"]}}
    assert Mcp(variant(servers, server_lifetime="shard")).preflight() == [
        "server x: no-such-server: no such program on PATH; install it or give its path",
        "server y: with server_lifetime: shard there is no {{workspace}}; remove it",
    ]
    assert Mcp(variant({"y": servers["y"]})).preflight() == []


def test_secrets_of_servers_and_variant_are_named():
    servers = {"x": {"command": "true", "env": {"A": {"secret": "S1"}}}}
    client = Mcp(Variant(name="v", servers=servers, env={"B": {"secret": "S2"}}))
    assert client.secrets_needed() == ["S1", "S2"]


def test_secrets_of_headers_are_named():
    servers = {"x": {"url": "http://x", "headers": {"Authorization": {"secret": "S3"}, "X-Team": "a"}}}
    assert Mcp(Variant(name="v", servers=servers)).secrets_needed() == ["S3"]


def test_programs_of_servers_are_named_and_listed_files_are_not():
    servers = {
        "a": {"command": "one", "env": {"PATH": "/there"}},
        "b": {"command": "./tool.py"},
        "c": {"url": "http://x"},
    }
    made = Mcp(Variant(name="v", servers=servers, client_options={"files": ["tool.py"]}))
    assert made.programs() == {"one": "/there"}
