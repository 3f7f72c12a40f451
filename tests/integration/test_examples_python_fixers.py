"""The example's checks tell good from bad, whatever state a program leaves the module in."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "examples" / "python-fixers"
CASES = sorted(file.parent for file in EXAMPLE.glob("cases/*/case.yaml"))
RUN_CHECKS = """
import importlib.util, json, pathlib, sys, types
spec = importlib.util.spec_from_file_location("checks", sys.argv[1])
checks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checks)
print(json.dumps(checks.check(types.SimpleNamespace(workspace=pathlib.Path.cwd()))))
"""

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def findings(case: Path, workspace: Path) -> dict[str, dict]:
    """What the case's checks say of a workspace, by name."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", RUN_CHECKS, str(case / "checks.py")],
        cwd=workspace,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def is_change(case: Path) -> bool:
    return yaml.safe_load((case / "case.yaml").read_text(encoding="utf-8"))["kind"] == "change"


@pytest.fixture
def workspace(case, tmp_path) -> Path:
    return Path(shutil.copytree(case / "files", tmp_path / "workspace"))


def test_there_are_twenty_faults_and_four_traps():
    assert [is_change(case) for case in CASES].count(True) == 20
    assert len(CASES) == 24


@every_case
def test_the_reference_solution_passes(case, workspace):
    if (case / "solution").exists():
        shutil.copytree(case / "solution", workspace, dirs_exist_ok=True)
    found = findings(case, workspace)
    assert list(found) == ["behaviour", "clean"]
    assert all(check["passed"] for check in found.values()), found


@every_case
def test_doing_nothing_passes_only_where_nothing_is_wrong(case, workspace):
    passed = all(check["passed"] for check in findings(case, workspace).values())
    assert passed is not is_change(case)


@every_case
@pytest.mark.parametrize(
    "left",
    [
        pytest.param("def (:\n", id="syntax error"),
        pytest.param("import no_such_module\n", id="import error"),
        pytest.param("raise SystemExit(0)\n", id="exits"),
        pytest.param("\xff", id="not UTF-8"),
        pytest.param(None, id="deleted"),
    ],
)
def test_a_broken_module_is_a_failed_check_with_a_reason(case, workspace, left):
    module = workspace / "mod.py"
    module.unlink()
    if left is not None:
        module.write_text(left, encoding="latin-1")
    found = findings(case, workspace)
    assert not found["behaviour"]["passed"]
    assert found["behaviour"]["detail"]
    assert str(workspace) not in found["behaviour"]["detail"], "details must be the same wherever checks run"
