"""The how-tos about models and imports are run as they stand, with a scripted model in the place of a real one."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from mst.testing.commandline import run_mst
from mst.testing.modelscript import Call, Reply, ToolUse
from mst.testing.modelserver import model_server
from mst.testing.servers import need_program

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
HOURS = {"Tokyo": ("Asia/Tokyo", "21"), "Lima": ("America/Lima", "7")}


def blocks(page, language):
    return [text for kind, text in BLOCK.findall((ROOT / "docs/how-to" / page).read_text()) if kind == language]


def script(call: Call) -> Reply:
    """A small model: it looks the time up when it is told to, and otherwise guesses."""
    place = next((name for name in HOURS if name in call.prompt), None)
    if place is None:
        return Reply(text="ready")
    zone, hour = HOURS[place]
    if call.turn == 0 and "use the tools" in call.system:
        use = ToolUse("convert_time", {"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": zone})
        return Reply(text="I look.", tools=[use])
    return Reply(text=f"The hour is {hour}." if call.turn else "The hour is 3.")


@pytest.mark.server
@pytest.mark.timeout(300)
def test_the_model_how_to_runs_as_it_stands(tmp_path):
    need_program("mcp-server-time", "mcp-server-time")
    with model_server(script) as server:
        config = blocks("evaluate-a-model.md", "yaml")[0].replace("http://127.0.0.1:11434/v1", server.openai_url)
        config = config.replace("trials: 3", "trials: 1")
        (tmp_path / "eval.yaml").write_text(config)
        (tmp_path / "cases.jsonl").write_text(blocks("evaluate-a-model.md", "json")[0])
        checked = run_mst("validate", "eval.yaml", cwd=tmp_path)
        ran = run_mst("run", "eval.yaml", cwd=tmp_path)
    assert checked.code == 0, checked
    assert ran.code == 0, ran
    assert "probing 2 agent settings" in ran.err
    (found,) = tmp_path.glob(".mst-results/clocks/runs/*/summary.json")
    passed = {one["name"]: one["result"]["passed"] for one in json.loads(found.read_text())["variants"]}
    assert passed == {"plain": 0, "told": 2}


@pytest.mark.timeout(300)
def test_the_import_how_to_runs_as_it_stands(tmp_path):
    samples = ROOT / "tests/data/imports"
    (tmp_path / "logs").mkdir()
    shutil.copy(samples / "menu.eval", tmp_path / "logs/old.eval")
    shutil.copy(samples / "menu.json", tmp_path / "logs/new.eval")  # what a file is called does not matter
    for line in blocks("import-results.md", "")[0].splitlines():
        done = run_mst(*line.split()[1:], cwd=tmp_path)
        assert done.code == 0, done
    shutil.copy(samples / "promptfoo.json", tmp_path / "output.json")
    (tmp_path / "answers.jsonl").write_text(blocks("import-results.md", "json")[0])
    head = "name: x\nclient: import\nassertions: [{contains_text: '7'}]\n"
    (tmp_path / "own.yaml").write_text(
        head + "datasets: [{import: {path: output.json, case_id: vars.dish}}]\n"
        "variants:\n  - {name: waiter, model: waiter, client_options: {files: [output.json], case_id: vars.dish}}\n"
        "  - {name: lines, client_options: {files: [answers.jsonl]}}\n"
    )
    done = run_mst("run", "own.yaml", cwd=tmp_path)
    assert done.code == 0, done
    (found,) = tmp_path.glob(".mst-results/x/runs/*/summary.json")
    variants = {one["name"]: one["result"]["passed"] for one in json.loads(found.read_text())["variants"]}
    assert variants == {"waiter": 1, "lines": 1}
