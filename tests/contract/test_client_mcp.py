"""The mcp client under the contract, with real servers of the SDK over stdio and at a URL."""

from __future__ import annotations

import pytest

from mst.clients.mcp import Mcp
from mst.config.files import IndexedFiles
from mst.model.case import Case, Variant
from mst.testing import client as suite
from mst.testing.client import ClientContract
from mst.testing.mcpserver import STDIO_PROGRAM, mcp_server_at


class TestMcp(ClientContract):
    LIFETIME = "trial"

    @pytest.fixture(autouse=True)
    def _listed(self, tmp_path_factory, monkeypatch):
        pytest.importorskip("mcp")
        folder = tmp_path_factory.mktemp("config")
        (folder / "server.py").write_text(STDIO_PROGRAM)
        self.files = IndexedFiles()
        self.ref = self.files.add(folder, "server.py")
        plain = suite.one_run

        async def with_files(*args, **given):
            return await plain(*args, **given, files=self.files)

        monkeypatch.setattr(suite, "one_run", with_files)

    def variant(self, **changes):
        return Variant(
            name="v",
            client="mcp",
            client_options={"files": [self.ref.to_dict()], "server_lifetime": self.LIFETIME},
            servers={"contract": {"command": "{{python}}", "args": ["server.py"]}},
            **changes,
        )

    def make(self, variant):
        return Mcp(variant)

    def case(self, number=0):
        return Case(id=f"case-{number}", dataset="d", input={"tool": "say", "arguments": {"text": f"hello {number}"}})

    def hanging(self):
        return self.variant(), Case(id="c", dataset="d", input={"tool": "hang"})

    def with_secret(self):
        return self.variant(env={"TOKEN": {"secret": "TOKEN"}})

    def secret_case(self):
        return Case(id="c", dataset="d", input={"tool": "token"})


class TestMcpShared(TestMcp):
    LIFETIME = "shard"


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    pytest.importorskip("mcp")
    with mcp_server_at(tmp_path_factory.mktemp("server")) as server:
        yield server


class TestMcpRemote(ClientContract):
    """Nothing is started here that could hang: what a call at a URL does then is in `tests/integration`."""

    @pytest.fixture(autouse=True)
    def _at(self, remote):
        self.url = remote.url

    def variant(self, **changes):
        server = {"url": self.url, **changes.pop("server", {})}
        return Variant(name="v", client="mcp", servers={"far": server}, **changes)

    def make(self, variant):
        return Mcp(variant)

    def case(self, number=0):
        return Case(id=f"case-{number}", dataset="d", input={"tool": "say", "arguments": {"text": f"hello {number}"}})

    def with_secret(self):
        return self.variant(server={"headers": {"X-Token": {"secret": "TOKEN"}}})

    def secret_case(self):
        return Case(id="c", dataset="d", input={"tool": "header", "arguments": {"name": "X-Token"}})
