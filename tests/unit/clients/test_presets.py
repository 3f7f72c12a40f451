"""Presets of coding agents as clients."""

import pytest

from mst.clients.presets import Codex, MiniSweAgent
from mst.errors import ConfigError
from mst.model.case import Variant


def test_mini_takes_no_servers_and_needs_a_model():
    with pytest.raises(ConfigError, match="cannot use MCP servers"):
        MiniSweAgent(Variant(name="v", client="mini-swe-agent", servers={"a": {"command": "x"}}))
    faults = MiniSweAgent(Variant(name="v", client="mini-swe-agent", client_options={"program": "sh"})).preflight()
    assert any("needs a `model`" in fault for fault in faults)


def test_a_key_without_a_proxy_needs_a_network():
    options = {"program": "sh", "key_proxy": False}
    faults = Codex(Variant(name="v", client="codex", client_options=options, sandbox={"kind": "bwrap"})).preflight()
    assert any("needs a sandbox with a network" in fault for fault in faults)
