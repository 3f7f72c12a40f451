"""The llm client under the contract: a scripted model over HTTP that uses a real MCP server over stdio."""

from __future__ import annotations

import json

import pytest

from mst.clients.llm import Llm
from mst.config.files import IndexedFiles
from mst.model.case import Case, Variant
from mst.testing import client as suite
from mst.testing.client import ClientContract
from mst.testing.mcpserver import STDIO_PROGRAM
from mst.testing.modelscript import Call, Reply, ToolUse
from mst.testing.modelserver import model_server


def script(call: Call) -> Reply:
    """Calls the tool that the prompt names, then repeats what it gave back."""
    if call.turn:
        return Reply(text=call.results[0])
    name, _, text = call.prompt.partition(": ")
    return Reply(tools=[ToolUse(name, {"text": text} if text else {})])


class TestLlm(ClientContract):
    INPUT = "say: hello"
    LIFETIME = "trial"

    @pytest.fixture(autouse=True)
    def _listed(self, tmp_path_factory, monkeypatch, talker):
        pytest.importorskip("mcp")
        folder = tmp_path_factory.mktemp("config")
        (folder / "server.py").write_text(STDIO_PROGRAM)
        self.url = talker.openai_url
        self.files = IndexedFiles()
        self.ref = self.files.add(folder, "server.py")
        plain = suite.one_run

        async def with_files(*args, **given):
            return await plain(*args, **given, files=self.files)

        monkeypatch.setattr(suite, "one_run", with_files)

    def variant(self, **changes):
        options = {"base_url": self.url, "files": [self.ref.to_dict()], "server_lifetime": self.LIFETIME}
        servers = {"contract": {"command": "{{python}}", "args": ["server.py"]}}
        return Variant(name="v", client="llm", model="m", client_options=options, servers=servers, **changes)

    def make(self, variant):
        return Llm(variant)

    def expected(self, number):
        return f"hello {number}"

    def hanging(self):
        return self.variant(), Case(id="c", dataset="d", input="hang")

    def with_secret(self):
        return self.variant(env={"TOKEN": {"secret": "TOKEN"}})

    def secret_case(self):
        return Case(id="c", dataset="d", input="token")

    def test_its_events_are_in_order_with_both_names_of_a_tool(self, tmp_path):
        result = self._run(tmp_path, self.variant(), self.case(3))
        tool, said = result.transcript.events
        assert (tool.kind, tool.source, tool.server, tool.name, tool.raw_name) == (
            "tool_call", "mcp", "contract", "say", "say",
        )  # fmt: skip
        assert (tool.arguments, tool.output, tool.is_error) == ({"text": "hello 3"}, "hello 3", False)
        assert (said.kind, said.output) == ("message", "hello 3")
        assert json.loads(result.transcript.to_json())["evidence"] == "structured"


class TestLlmShared(TestLlm):
    LIFETIME = "shard"


@pytest.fixture(scope="module")
def talker():
    with model_server(script) as server:
        yield server
