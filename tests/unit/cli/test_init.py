from __future__ import annotations

import pytest
from click.testing import CliRunner

from mst.cli.init import FILES, command, write_starter
from mst.cli.validation import validate
from mst.errors import UsageError


def test_the_starter_is_sound_and_says_how_many_cases_a_verdict_needs(tmp_path):
    result = CliRunner().invoke(command, [str(tmp_path / "new")])
    assert result.exit_code == 0
    assert "at least 6 cases" in result.stdout
    found = validate(tmp_path / "new" / "eval.yaml", ["oracle", "noop"], None)
    assert found.resolved.warnings == found.faults == []
    assert found.exit_code(strict=True) == 0
    assert len(found.resolved.cases) >= 8


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path):
    (tmp_path / "cases.yaml").write_text("mine")
    with pytest.raises(UsageError, match=r"cases\.yaml: already there"):
        write_starter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cases.yaml"]
    assert (tmp_path / "cases.yaml").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_starter(tmp_path / "file" / "below")


def test_the_new_program_really_is_better(tmp_path):
    import subprocess
    import sys

    write_starter(tmp_path)
    assert set(FILES) == {path.name for path in tmp_path.iterdir()}

    def ask(which: str) -> str:
        argv = [sys.executable, str(tmp_path / "slug.py"), which]
        return subprocess.run(argv, input="Café au lait", capture_output=True, text=True, check=True).stdout.strip()

    assert ask("new") == "cafe-au-lait"
    assert ask("old") != "cafe-au-lait"
