"""The list of parts of an image, from what its recipe brings. No engine."""

from __future__ import annotations

import json

from mst.runners.image_parts import node_parts, parts_list, pinned_parts, wheel_parts
from mst.runners.images import recipes_folder


def test_wheels_are_listed_with_their_digests(tmp_path):
    (tmp_path / "Some_Thing-1.2-py3-none-any.whl").write_bytes(b"x")
    [part] = wheel_parts(tmp_path)
    assert (part["name"], part["version"], part["purl"]) == ("some-thing", "1.2", "pkg:pypi/some-thing@1.2")
    assert part["hashes"][0]["content"].startswith("2d711642b726b044")
    assert wheel_parts(tmp_path / "none") == []


def test_of_a_lock_only_what_is_installed_on_linux_is_listed(tmp_path):
    packages = {
        "": {"name": "all"},
        "node_modules/@a/tool": {"version": "1.0.0"},
        "node_modules/@a/tool-linux": {"version": "1.0.0", "os": ["linux"], "libc": ["glibc"]},
        "node_modules/@a/tool-musl": {"version": "1.0.0", "os": ["linux"], "libc": ["musl"]},
        "node_modules/@a/tool-mac": {"version": "1.0.0", "os": ["darwin"]},
    }
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": packages}))
    assert [part["purl"] for part in node_parts(tmp_path)] == ["pkg:npm/@a/tool@1.0.0", "pkg:npm/@a/tool-linux@1.0.0"]


def test_what_the_agents_image_pins_is_listed():
    agents = recipes_folder() / "agents"
    names = {part["name"] for part in [*node_parts(agents), *pinned_parts(agents)]}
    assert {"mini-swe-agent", "litellm", "@anthropic-ai/claude-code", "@openai/codex"} <= names
    assert "pandas" not in names


def test_the_system_s_packages_come_from_the_image():
    listed = parts_list([{"name": "added"}], "git 1:2.39\nnodejs 18.20\n")
    assert [part["name"] for part in listed["components"]] == ["added", "git", "nodejs"]
    assert listed["components"][1]["purl"] == "pkg:deb/debian/git@1:2.39"
