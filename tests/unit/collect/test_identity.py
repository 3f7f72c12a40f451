"""What an attempt's identity is made of: equal for repeats, another for everything that can change an answer."""

from __future__ import annotations

import json
import shutil

import pytest

from mst.clients.command import Command
from mst.clients.python import PythonCallable
from mst.collect import packages
from mst.collect.identity import identity_of, setting_of
from mst.collect.packages import packages_of
from mst.collect.programs import program_identity
from mst.config.files import IndexedFiles
from mst.model.base import FileRef
from mst.model.case import Case, TrialLimits, Variant
from mst.model.identity import differing

FILE = FileRef(path="f", sha256="0" * 64, size=1)
BASE = Variant(name="v", client="command", client_options={"argv": ["sh", "-c", "true"]})
CASE = Case(id="c", dataset="d", input="q", fixture=[FILE])


def identity(variant=BASE, case=CASE, *, prompt="q", image=None, solution=False):
    return identity_of(
        setting_of(variant, Command(variant), IndexedFiles()), case, prompt=prompt, image=image, solution=solution
    )


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


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package with its metadata; takes name, version, modules and what it needs."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, version, *modules, needs=(), editable=False):
        for old in tmp_path.glob(f"{name}-*.dist-info"):
            shutil.rmtree(old)
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            *(f"Requires-Dist: {n}" for n in needs),
        ]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
        (folder / "top_level.txt").write_text("\n".join(modules))
        if editable:
            (folder / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {"editable": True}}))
        packages_of.cache_clear()

    yield install
    packages_of.cache_clear()


def called(function, files=(), index=None):
    options = {"function": function, "files": [file.to_dict() for file in files]}
    variant = Variant(name="v", client="python", client_options=options)
    return setting_of(variant, PythonCallable(variant), index or IndexedFiles())["packages"]


def test_the_package_of_a_function_and_what_it_needs_are_told_with_versions(installed):
    installed(
        "asker", "1.2", "asker", needs=["Way_Out>=1; python_version >= '3'", "extra-only; extra == 'x'", "absent"]
    )
    installed("Way.Out", "0.3", "way_out", needs=["asker"])
    installed("extra_only", "9", "extra_only")
    assert called("asker.deep:answer") == "asker 1.2, way-out 0.3"
    installed("Way.Out", "0.4", "way_out", editable=True)
    assert called("asker.deep:answer") == "asker 1.2, way-out 0.4 (editable)"


def test_what_listed_files_import_counts_and_they_themselves_do_not(installed, tmp_path):
    installed("asker", "1.2", "asker")
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "mine.py").write_text("import json, os.path\nimport near\nfrom asker.deep import answer\n")
    (tmp_path / "eval" / "near.py").write_text("def f():\n    import nobodys_module\n")
    (tmp_path / "eval" / "odd.py").write_text("this is no Python\n")
    index = IndexedFiles()
    files = [index.add(tmp_path / "eval", name) for name in ("mine.py", "near.py", "odd.py")]
    assert called("./mine.py:f", files, index) == "asker 1.2, nobodys_module (of no package)"


def test_more_packages_than_are_named_are_told_apart_by_a_hash(installed, monkeypatch):
    monkeypatch.setattr(packages, "MOST", 1)
    installed("asker", "1.2", "asker", needs=["other"])
    installed("other", "1", "other")
    one = called("asker:f")
    installed("other", "2", "other")
    assert one.startswith("asker 1.2, others 1 (")
    assert one != called("asker:f")


def test_other_clients_and_images_have_no_packages_of_this_machine():
    assert identity().parts.get("packages") is None
    variant = Variant(
        name="v", client="python", client_options={"function": "json:dumps"}, sandbox={"kind": "docker", "image": "i"}
    )
    assert setting_of(variant, PythonCallable(variant), IndexedFiles())["packages"] is None
