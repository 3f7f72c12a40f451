"""What a sandbox may be asked for."""

from __future__ import annotations

import pytest

from mst.errors import ConfigError
from mst.sandboxes.options import SandboxOptions, sandbox_options, size_bytes


@pytest.mark.parametrize(
    ("written", "size"),
    [("512m", 512 << 20), ("2g", 2 << 30), ("1.5 GiB", 3 << 29), ("100kB", 100 << 10), ("7", 7), ("7B", 7), (9, 9)],
)
def test_sizes_are_powers_of_1024(written, size):
    assert size_bytes(written) == size


@pytest.mark.parametrize("written", ["", "m", "-1m", "1x", "1 2", "0x10"])
def test_what_is_no_size_is_named(written):
    with pytest.raises(ValueError, match="is not a size"):
        size_bytes(written)


def test_isolating_kinds_have_no_network_unless_it_is_asked_for():
    assert SandboxOptions(kind="bwrap").reach == "none"
    assert SandboxOptions(kind="bwrap", network="open").reach == "open"
    assert SandboxOptions().reach == "open"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"kind": "jail"}, "sandbox.kind"),
        ({"kind": "bwrap", "memroy": "1g"}, "sandbox.memroy"),
        ({"kind": "bwrap", "memory": "lots"}, "sandbox.memory: 'lots' is not a size"),
        ({"kind": "bwrap", "memory": 0}, "sandbox.memory"),
        ({"kind": "bwrap", "pids": 1}, "sandbox.pids"),
        ({"kind": "bwrap", "allow": ["a"]}, "'allow' needs network: allowlist"),
        ({"kind": "bwrap", "network": "allowlist"}, "needs 'allow'"),
        ({"kind": "bwrap", "network": "allowlist", "allow": ["a.test"]}, "needs kind: docker"),
        ({"kind": "docker", "network": "allowlist", "allow": ["a.test:80"]}, "'a.test:80' is not a host name"),
        ({"kind": "docker", "network": "allowlist", "allow": ["a..test"]}, "'a..test' is not a host name"),
        ({"kind": "docker", "network": "allowlist", "allow": ["*"]}, "'*' is not a host name"),
        ({"kind": "bwrap", "read": ["opt"]}, "not an absolute path"),
    ],
)
def test_faults_name_the_variant_and_the_key(written, words):
    with pytest.raises(ConfigError) as caught:
        sandbox_options(written, "variant 'v'")
    assert str(caught.value).startswith("variant 'v': ")
    assert words in str(caught.value)


def test_host_names_are_kept_in_small_letters():
    options = SandboxOptions(kind="docker", network="allowlist", allow=["API.Example.org", "*.example.net", "my_host"])
    assert options.allow == ["api.example.org", "*.example.net", "my_host"]
