"""What an attempt's identity is made of: equal for repeats, another for everything that can change an answer."""

from __future__ import annotations

import json

import pytest

from mst.clients.command import Command
from mst.collect.identity import identity_of, setting_of
from mst.collect.programs import program_identity
from mst.model.base import FileRef
from mst.model.case import Case, TrialLimits, Variant
from mst.model.identity import differing

FILE = FileRef(path="f", sha256="0" * 64, size=1)
BASE = Variant(name="v", client="command", client_options={"argv": ["sh", "-c", "true"]})
CASE = Case(id="c", dataset="d", input="q", fixture=[FILE])


def identity(variant=BASE, case=CASE, *, prompt="q", image=None, solution=False):
    return identity_of(setting_of(variant, Command(variant)), case, prompt=prompt, image=image, solution=solution)


def changed(**fields):
    return BASE.model_copy(update=fields)


def case(**fields):
    return CASE.model_copy(update=fields)


OTHERS = {
    "options": {"variant": changed(client_options={"argv": ["sh", "-c", "false"]})},
    "model": {"variant": changed(model="m")},
    "program": {"variant": changed(client_options={"argv": ["true", "-c", "true"]})},
    "servers": {"variant": changed(servers={"s": {"command": "x"}})},
    "env": {"variant": changed(env={"MODE": "fast"})},
    "files": {"variant": changed(files=[FILE])},
    "sandbox": {"variant": changed(sandbox={"kind": "none", "memory": "1g"})},
    "limits": {"variant": changed(trial_limits=TrialLimits(time_s=1))},
    "image": {"image": "sha256:1"},
    "input": {"case": case(input="other")},
    "prompt": {"prompt": "Please: q"},
    "fixture": {"case": case(fixture=[FILE.model_copy(update={"executable": True})])},
    "setup": {"case": case(setup=[["true"]])},
    "solution": {"case": case(solution=[FILE]), "solution": True},
}


@pytest.mark.parametrize("part", OTHERS)
def test_what_can_change_an_answer_makes_another_identity(part):
    assert part in differing(identity(), identity(**OTHERS[part]))


@pytest.mark.parametrize(
    "same",
    [
        {"variant": changed(name="other", description="d")},
        {"case": case(expected={"answer": "x"}, tags=["t"], metadata={"a": 1}, trials=5, teardown=[["true"]])},
        {"case": CASE.for_collecting()},
    ],
)
def test_what_cannot_makes_none(same):
    assert differing(identity(), identity(**same)) == {}


def test_values_of_the_environment_are_told_as_a_hash_and_names_in_words():
    part = identity(changed(env={"B": "quiet-word", "A": {"secret": "KEY"}})).parts["env"]
    assert part.startswith("A, B (")
    assert "quiet-word" not in part


def test_the_image_that_a_shard_runs_in_is_a_part(monkeypatch):
    here = identity()
    monkeypatch.setenv("MST_IMAGE_DIGEST", "sha256:2")
    assert differing(here, identity()) == {"worker": (None, "sha256:2")}


def test_a_program_is_told_by_its_bytes_and_again_when_they_change(tmp_path):
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    first = program_identity(str(program), "")
    program.write_text("#!/bin/sh\necho 22\n")
    second = program_identity("tool", str(tmp_path))
    assert first.startswith("tool sha256 ")
    assert first != second


def test_the_version_of_a_python_package_is_found_by_its_list_of_files(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fixer").write_text("#!/usr/bin/python3\n")
    (tmp_path / "bin" / "fixer").chmod(0o755)
    listed = tmp_path / "lib" / "python3.11" / "site-packages" / "fixer_tool-2.3.1.dist-info"
    listed.mkdir(parents=True)
    (listed / "RECORD").write_text("../../../bin/fixer,sha256=x,9\n")
    assert program_identity("fixer", str(tmp_path / "bin")).startswith("fixer 2.3.1 sha256 ")


def test_the_version_of_an_npm_package_is_found_behind_its_link(tmp_path):
    package = tmp_path / "node_modules" / "agent"
    (package / "bin").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": "9.8.7"}))
    (package / "bin" / "cli.js").write_text("#!/usr/bin/env node\n")
    (package / "bin" / "cli.js").chmod(0o755)
    (tmp_path / "node_modules" / ".bin").mkdir()
    (tmp_path / "node_modules" / ".bin" / "agent").symlink_to(package / "bin" / "cli.js")
    assert program_identity("agent", str(tmp_path / "node_modules" / ".bin")).startswith("agent 9.8.7 sha256 ")


def test_what_cannot_be_known_is_said(tmp_path):
    assert program_identity("nope", str(tmp_path)) == "nope (not found)"
    assert program_identity("./run.sh", "") == "run.sh (in the workspace)"


def test_repeats_and_attempts_share_an_identity(bench):
    variant = bench.command("cat f")
    one, two = (bench.trial(bench.case({"f": "1"}), variant).record for _ in range(2))
    assert one.identity.hash == two.identity.hash
    assert one.identity.parts["program"].startswith("sh ")
    other = bench.trial(bench.case({"f": "2"}), variant).record
    assert list(differing(one.identity, other.identity)) == ["fixture"]
