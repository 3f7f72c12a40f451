from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mst.cli.init import FILES, command, write_import, write_starter
from mst.cli.validation import validate
from mst.config.resolve import load_eval
from mst.errors import UsageError

SAMPLES = Path(__file__).parents[2] / "data/imports"


def test_the_starter_is_sound_and_says_how_many_cases_a_verdict_needs(tmp_path):
    result = CliRunner().invoke(command, [str(tmp_path / "new")])
    assert result.exit_code == 0
    assert "at least 6 cases" in result.stdout
    found = validate(tmp_path / "new" / "eval.yaml", ["oracle", "noop"], None)
    assert found.resolved.warnings == found.faults == []
    assert found.exit_code(strict=True) == 0
    assert len(found.resolved.cases) >= 8


def test_commands_to_copy_are_quoted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(command, ["my evals"]).stdout
    assert "\n  mst validate 'my evals/eval.yaml' --oracle --noop\n  mst run 'my evals/eval.yaml'\n" in said


@pytest.mark.parametrize("where", ["new", "."])
def test_a_folder_in_a_git_checkout_is_said_to_be_there(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    assert "git checkout" not in CliRunner().invoke(command, ["elsewhere"]).stdout
    (tmp_path / ".git").mkdir()
    said = CliRunner().invoke(command, [where]).stdout
    assert f"in the git checkout {tmp_path.name}" in said
    assert ".gitignore" in said


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


@pytest.mark.parametrize(
    ("files", "variants"),
    [
        (["menu.eval", "menu.json"], ["mockllm/waiter", "mockllm/cook"]),
        (["promptfoo.json"], ["echo", "closed", "waiter"]),
    ],
)
def test_results_of_others_become_an_eval_with_a_variant_for_each_model(tmp_path, files, variants):
    folder = tmp_path / "menu"
    asked = [part for name in files for part in ("--import", str(SAMPLES / name))]
    result = CliRunner().invoke(command, [str(folder), *asked])
    assert result.exit_code == 0, result.output
    assert {path.name for path in folder.iterdir()} == {*files, "eval.yaml"}
    found = validate(folder / "eval.yaml", [], None)
    assert found.faults == []
    assert sorted(variant.name for variant in found.resolved.plan.variants) == sorted(variants)
    assert len(found.resolved.cases) == (4 if "menu.eval" in files else 2)
    with load_eval(folder / "eval.yaml") as resolved:
        assert {case.trials for case in resolved.cases} == {2}


def test_results_in_the_folder_itself_are_not_copied_and_models_of_two_files_are_told_apart(tmp_path):
    row = '{"id": "a", "model": "m", "output": "x"}\n'
    for name in ("old.jsonl", "new.jsonl"):
        (tmp_path / name).write_text(row)
    written = write_import(tmp_path, [tmp_path / "old.jsonl", tmp_path / "new.jsonl"])
    assert written == [tmp_path / "eval.yaml"]
    found = validate(tmp_path / "eval.yaml", [], None)
    assert found.faults == []
    assert [variant.name for variant in found.resolved.plan.variants] == ["m in old.jsonl", "m in new.jsonl"]


def test_a_file_that_is_no_result_leaves_nothing(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UsageError, match=r"x\.json: no format that is known"):
        write_import(tmp_path / "new", [tmp_path / "x.json"])
    assert not (tmp_path / "new").exists()
