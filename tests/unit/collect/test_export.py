"""What is taken out of a workspace, and what is told about the rest."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from mst.collect import baseline as baseline_module
from mst.collect.baseline import Given
from mst.collect.export import export
from mst.collect.patch import make_patch
from mst.config.files import hash_file
from mst.errors import ClientError
from mst.model.case import TrialLimits
from mst.process.redact import Redactor


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def take(workspace, secrets=(), baseline=None, timeout_s=30.0, **limits):
    return export(
        workspace,
        workspace.parent / "out",
        limits=TrialLimits(**limits),
        baseline=baseline or {},
        redactor=Redactor(secrets),
        timeout_s=timeout_s,
    )


def paths(found):
    return [file.path for file in found.files]


def test_plain_files_are_copied_with_digest_size_and_bit(workspace):
    (workspace / "b/deep").mkdir(parents=True)
    (workspace / "b/deep/x").write_text("abc")
    (workspace / "a").write_text("#!/bin/sh\n")
    (workspace / "a").chmod(0o755)
    found = take(workspace)
    assert paths(found) == ["a", "b/deep/x"]
    assert [(f.size, f.executable) for f in found.files] == [(10, True), (3, False)]
    for file in found.files:
        copy = found.folder / file.path
        assert hash_file(copy) == file.sha256
        assert bool(copy.stat().st_mode & stat.S_IXUSR) == file.executable
    assert found.notes() == {}


def test_links_pipes_and_unstorable_names_stay_behind_and_are_told(workspace, tmp_path):
    (tmp_path / "outside").write_text("secret of the machine")
    (workspace / "link").symlink_to(tmp_path / "outside")
    (workspace / "folder-link").symlink_to(tmp_path)
    os.mkfifo(workspace / "pipe")
    (workspace / "back\\slash").write_text("x")
    (workspace / os.fsdecode(b"bad-\xff")).write_text("x")
    (workspace / "ok").write_text("x")
    found = take(workspace)
    assert paths(found) == ["ok"]
    assert found.links == {"link": str(tmp_path / "outside"), "folder-link": str(tmp_path)}
    assert found.omitted_count == 5
    assert found.omitted["pipe"] == "not a plain file"
    for name in found.omitted:
        name.encode()


def test_what_is_over_a_limit_stays_behind_given_files_come_first(workspace):
    for name in "abcdef":
        (workspace / name).write_text(name * 10)
    given = {"f": Given("0" * 64, None)}
    found = take(workspace, baseline=given, artifact_files=3)
    assert paths(found) == ["a", "b", "f"]
    assert found.omitted_count == 3


def test_bytes_are_bounded_and_smaller_files_still_fit(workspace):
    (workspace / "a").write_bytes(b"x" * 60)
    (workspace / "b").write_bytes(b"x" * 60)
    (workspace / "c").write_bytes(b"x" * 40)
    with (workspace / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    found = take(workspace, artifact_bytes=100)
    assert paths(found) == ["a", "c"]
    assert set(found.omitted) == {"b", "sparse"}


def test_a_given_file_that_stays_behind_is_not_taken_for_deleted(workspace):
    (workspace / "big").write_bytes(b"x" * 60)
    found = take(workspace, baseline={"big": Given("0" * 64, None)}, artifact_bytes=10)
    assert found.behind == {"big"}


def test_a_flood_of_names_is_told_in_bounded_space(workspace):
    for number in range(300):
        (workspace / f"f{number}").touch()
    found = take(workspace, artifact_files=10)
    assert len(found.files) == 10
    assert found.omitted_count == 290
    assert len(found.omitted) == 20


def test_more_entries_than_anybody_wants_are_the_agents_fault(workspace, monkeypatch):
    monkeypatch.setattr(baseline_module, "MAX_ENTRIES", 50)
    for number in range(51):
        (workspace / f"f{number}").touch()
    with pytest.raises(ClientError, match="more than 50") as caught:
        take(workspace)
    assert caught.value.kind == "agent"


def test_time_that_is_over_is_the_environments_fault(workspace):
    (workspace / "a").touch()
    with pytest.raises(ClientError, match="export_s") as caught:
        take(workspace, timeout_s=-1.0)
    assert caught.value.kind == "environment"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_made_unreadable_are_read_all_the_same(workspace):
    (workspace / "d").mkdir()
    (workspace / "d/x").write_text("x")
    (workspace / "d/x").chmod(0)
    (workspace / "d").chmod(0)
    assert paths(take(workspace)) == ["d/x"]


def test_secrets_are_removed_from_what_the_program_wrote(workspace):
    (workspace / "log").write_text("token hunter2-hunter2 used")
    (workspace / "given").write_text("hunter2-hunter2")
    given = {"given": Given(hash_file(workspace / "given"), None)}
    (workspace / "hunter2-hunter2.txt").write_text("x")
    found = take(workspace, secrets=["hunter2-hunter2"], baseline=given)
    assert found.omitted == {"hunter2-hunter2.txt": "its name holds a secret"}
    assert (found.folder / "log").read_text() == "token [redacted] used"
    assert (found.folder / "given").read_text() == "hunter2-hunter2"
    assert found.redacted == ["log"]
    assert {file.path: file.sha256 for file in found.files}["log"] == hash_file(found.folder / "log")


def test_a_workspace_that_the_program_removed_is_an_empty_one(bench):
    collected = bench.trial(bench.case({"a.txt": "one\n"}), bench.command('rm -rf "$PWD"'))
    record = collected.record
    assert (record.status, record.error_kind) == ("completed", None), (
        "what it did is its answer, not the machine's fault"
    )
    assert record.artifact_files == []
    assert "deleted file mode 100644" in record.diff
    assert "workspace" in record.client_diagnostics["export"]
    collected.discard()
    assert bench.left() == []


def test_a_workspace_that_became_a_link_is_not_followed(bench, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "private.txt").write_text("of the machine")
    script = f"cd .. && mv workspace aside && ln -s {elsewhere} workspace"
    collected = bench.trial(bench.case({"a.txt": "one\n"}), bench.command(script))
    assert collected.record.artifact_files == []
    assert "private" not in collected.record.diff
    assert "workspace" in collected.record.client_diagnostics["export"]


def test_paths_that_are_too_long_are_left_behind_and_said(bench):
    deep = "import os\nfor _ in range(120):\n os.mkdir('d' * 50); os.chdir('d' * 50)\nopen('x', 'w').close()"
    variant = bench.command(f'echo two > b.txt; "{sys.executable}" -c "{deep}"')
    collected = bench.trial(bench.case({"a.txt": "one\n"}), variant)
    assert collected.record.status == "completed", collected.record.error
    assert [file.path for file in collected.record.artifact_files] == ["a.txt", "b.txt"]
    assert set(collected.record.client_diagnostics["export"]["omitted"].values()) == {"its path is too long"}
    collected.discard()
    assert bench.left() == []


@pytest.mark.parametrize("trap", ["mkdir {place}; echo planted > {place}/planted.txt", "ln -s {elsewhere} {place}"])
def test_what_a_program_puts_where_its_files_go_is_removed_first(bench, tmp_path, trap):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = '"$(cd ../..; pwd)/artifacts-$(basename "$(cd ..; pwd)" | cut -c7-)"'
    collected = bench.trial(
        bench.case({"a.txt": "one\n"}), bench.command(trap.format(place=place, elsewhere=elsewhere))
    )
    assert collected.record.status == "completed", collected.record.error
    assert sorted(path.name for path in collected.artifacts.iterdir()) == ["a.txt"]
    assert list(elsewhere.iterdir()) == []


def test_no_secret_is_where_a_link_points_or_what_it_is_called(workspace):
    secret = "first line\nsecond line"
    (workspace / "out").symlink_to(secret)
    (workspace / secret).symlink_to("a")
    found = take(workspace, secrets=[secret])
    assert found.links == {"out": "[redacted]"}
    assert "first" not in make_patch({}, found)
