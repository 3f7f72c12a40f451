"""No sandbox, under the part of the contract that it can keep."""

from __future__ import annotations

import pytest

from mst.errors import ConfigError
from mst.sandboxes.none import NoSandbox
from mst.sandboxes.open import open_sandbox
from mst.testing.sandbox import SandboxContract


class TestNone(SandboxContract):
    def make(self, options):
        return NoSandbox(options)

    def test_it_says_that_it_does_not_isolate(self):
        assert NoSandbox.isolates is False

    @pytest.mark.parametrize("network", ["none", "allowlist"])
    def test_it_does_not_promise_to_keep_anybody_from_the_network(self, network):
        with pytest.raises(ConfigError, match="cannot keep"):
            open_sandbox({"kind": "none", "network": network}, "variant 'v'")
