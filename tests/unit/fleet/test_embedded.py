import sys
from pathlib import Path

import pytest

from mst.errors import UsageError
from mst.fleet import embedded
from mst.fleet.embedded_fleet import remove_left_dispatches
from mst.fleet.extras import need


def test_a_server_on_path_comes_first(tmp_path):
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert embedded.find_server({"PATH": str(tmp_path)}) == program
    other = tmp_path / "redis-server"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert embedded.find_server({"PATH": str(tmp_path)}) == other


def test_without_any_server_the_error_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(embedded, "_bundled_server", lambda: None)
    with pytest.raises(UsageError, match=r"MST_BROKER_URL.*mst\[embedded\]"):
        embedded.find_server({"PATH": "/nowhere"})


def test_folders_with_too_long_a_path_are_passed_over(monkeypatch, tmp_path):
    deep = tmp_path / ("x" * 60) / ("y" * 60)
    deep.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    monkeypatch.setattr(embedded.tempfile, "gettempdir", lambda: str(deep))
    folder = embedded._runtime_folder()
    try:
        assert folder.parent == Path("/tmp").resolve()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert list(deep.iterdir()) == []
    finally:
        folder.rmdir()


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyrage", None)
    with pytest.raises(UsageError, match=r"pip install 'mst\[fleet\]'"):
        need("pyrage")


def test_dispatches_of_runs_that_were_removed_go_and_no_others(tmp_path):
    for place in ("quiz/runs/one", ".fleet/quiz/dispatches/one/d1", ".fleet/quiz/dispatches/gone/d1", ".fleet/logs"):
        (tmp_path / place).mkdir(parents=True)
    remove_left_dispatches(tmp_path)
    assert [path.name for path in (tmp_path / ".fleet/quiz/dispatches").iterdir()] == ["one"]
    assert (tmp_path / ".fleet/logs").is_dir()
    remove_left_dispatches(tmp_path / "none")
