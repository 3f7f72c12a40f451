from __future__ import annotations

import importlib
import sys

import pytest

from mst.config import registry
from mst.errors import ConfigError

JUDGE = """
from mst.model.base import Model

class Options(Model):
    model_config = {"extra": "forbid"}
    tone: str = "kind"

class Tone:
    Options = Options
"""


@pytest.mark.parametrize("kind", ["clients", "judges", "pairwise_judges", "assertions", "datasets"])
def test_every_built_in_that_takes_options_loads_and_says_which(kind):
    for name in registry.BUILT_IN[kind]:
        assert registry.lookup(kind, name).Options.model_json_schema()["type"] == "object", name


def test_the_rooms_above_are_not_imported_by_importing_the_registry():
    code = (
        "import sys, mst.config.resolve; print([m for m in sys.modules if m.startswith(('mst.clients', 'mst.grade'))])"
    )
    import subprocess

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_an_unknown_name_lists_the_known_and_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown client 'ecko' \(did you mean 'echo'\?\); known: echo, command"):
        registry.find("clients", "ecko")


def test_a_name_of_another_kind_says_what_it_is():
    with pytest.raises(ConfigError, match="'smaller_diff' is a pairwise judge, not a judge"):
        registry.find("judges", "smaller_diff")
    with pytest.raises(ConfigError, match="'contains_text' is an assertion, not a judge"):
        registry.find("judges", "contains_text")


def test_plugins_are_found_by_entry_point_and_loaded_when_asked(plugin):
    plugin("tone_plugin", JUDGE, "[mst.judges]\nacme/judge/tone = tone_plugin:Tone\n")
    found = registry.find("judges", "acme/judge/tone")
    assert (found.plugin, found.version) == ("acme", "1.2.3")
    assert "tone_plugin" not in sys.modules
    assert found.load().__name__ == "Tone"
    assert "acme/judge/tone" in registry.known("judges")
    with pytest.raises(ConfigError, match="'acme/judge/tone' is a judge, not a client"):
        registry.find("clients", "acme/judge/tone")


def test_plugin_versions_are_those_of_the_distributions(plugin):
    plugin("tone_plugin", JUDGE, "[mst.judges]\nacme/judge/tone = tone_plugin:Tone\n", version="4.5")
    assert registry.plugin_versions(["acme", "acme/judge/tone"]) == {"acme": "4.5"}
    assert registry.plugin_versions([]) == {}
    with pytest.raises(ConfigError, match="plugin 'other' is not installed"):
        registry.plugin_versions(["other"])


def test_a_plugin_with_a_wrong_name_or_a_taken_one_is_refused(plugin):
    plugin("tone_plugin", JUDGE, "[mst.judges]\nacme/client/tone = tone_plugin:Tone\n")
    with pytest.raises(ConfigError, match="must be called <namespace>/judge/<name>"):
        registry.find("judges", "acme/judge/tone")


def test_two_plugins_cannot_share_a_name(plugin):
    plugin("one_plugin", JUDGE, "[mst.judges]\nacme/judge/tone = one_plugin:Tone\n")
    plugin("two_plugin", JUDGE, "[mst.judges]\nacme/judge/tone = two_plugin:Tone\n")
    with pytest.raises(ConfigError, match="two installed plugins name a judge"):
        registry.discover()


def test_a_missing_package_names_the_extra_that_brings_it(plugin):
    plugin("needy_plugin", "import no_such_package_here\n", "[mst.judges]\nacme/judge/needy = needy_plugin:Needy\n")
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match="plugin 'acme' needs the package 'no_such_package_here'"):
        registry.lookup("judges", "acme/judge/needy")
    error = ModuleNotFoundError("No module named 'mcp'", name="mcp")
    assert "pip install 'mst[mcp]'" in str(registry._missing(error, "client 'mcp'", plugin=None))


def test_a_plugin_without_the_promised_attribute_is_a_fault_of_the_plugin(plugin):
    plugin("empty_plugin", "", "[mst.judges]\nacme/judge/empty = empty_plugin:Gone\n")
    with pytest.raises(ConfigError, match="plugin 'acme' cannot be loaded"):
        registry.lookup("judges", "acme/judge/empty")
