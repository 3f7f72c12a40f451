"""Which tools a model is offered, under which names, and how calls are read."""

from __future__ import annotations

import pytest

from mst.clients.llm_tools import NAME_CHARACTERS, ServerTool, arguments_of, offered, shortened
from mst.errors import ClientError


def tool(name, server="a", description="as the server says"):
    return ServerTool(server=server, name=name, description=description, schema={"type": "object"})


def names(*tools, only=None, described=None):
    return {
        name: f"{one.server}.{one.name}"
        for name, one in offered(list(tools), only=only, described=described or {}).items()
    }


def test_tools_keep_their_names_unless_two_servers_have_them():
    assert names(tool("add"), tool("log"), tool("log", "b")) == {"add": "a.add", "a__log": "a.log", "b__log": "b.log"}


def test_names_that_providers_refuse_are_made_to_fit_and_stay_apart():
    long = "x" * 100
    found = names(tool("read file"), tool("read.file"), tool(long), tool(long + "y"))
    assert list(found.values()) == ["a.read file", "a.read.file", f"a.{long}", f"a.{long}y"]
    assert all(len(name) <= NAME_CHARACTERS for name in found)
    assert next(iter(found)) == "read_file"
    assert len(found) == 4


def test_only_some_are_offered_by_name_or_by_server_and_name():
    tools = [tool("add"), tool("log"), tool("log", "b")]
    assert names(*tools, only=["b.log", "add"]) == {"add": "a.add", "log": "b.log"}
    assert names(*tools, only=[]) == {}


def test_descriptions_are_replaced_the_more_exact_name_wins():
    tools = [tool("log"), tool("log", "b"), tool("add")]
    described = {"log": "short", "b.log": {"description": "of b"}}
    found = offered(tools, only=None, described=described)
    assert [one.description for one in found.values()] == ["short", "of b", "as the server says"]


@pytest.mark.parametrize("given", [{"only": ["lag"]}, {"described": {"lag": "x"}}])
def test_a_name_that_no_server_has_is_refused_with_what_there_is(given):
    with pytest.raises(ClientError, match="no server has a tool 'lag'; there are: add, log") as raised:
        names(tool("log"), tool("add"), **given)
    assert raised.value.kind == "harness"


@pytest.mark.parametrize(
    ("given", "expected"), [(None, {}), ("", {}), ('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("{}", {})]
)
def test_arguments_are_objects(given, expected):
    assert arguments_of(given) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ('{"a": ', "not valid JSON"),
        ("[1]", "should be a JSON object, not \\[1\\]"),
        ("7", "should be a JSON object"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_other_arguments_are_told_apart(given, says):
    with pytest.raises(ValueError, match=says):
        arguments_of(given)


def test_a_long_output_is_cut_and_says_so():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcde", 3) == "abc\n[2 more characters were left out]"
