"""Terraform's files as text: they parse, hold to the house's rules, and their READMEs are up to date."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

hcl2 = pytest.importorskip("hcl2", reason="python-hcl2 is not installed")

REPOSITORY = Path(__file__).parents[2]
ROOT = REPOSITORY / "infra" / "terraform"
FILES = sorted(ROOT.rglob("*.tf"))
MODULES = sorted(path.parent for path in ROOT.glob("modules/*/*/versions.tf"))
# Names of what takes a secret as an argument: Terraform would keep it in its state.
SECRET_ARGUMENTS = re.compile(
    r"^\s*(auth_token|secret_string|secret_data|password|master_password|passwords)\s*=", re.M
)


def test_both_clouds_have_the_same_six_modules():
    found = {}
    for module in MODULES:
        found.setdefault(module.parent.name, set()).add(module.name)
    assert found == {
        cloud: {"network", "broker", "store", "secrets", "workers", "monitoring"} for cloud in ("aws", "gcp")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_parses_and_is_small_and_takes_no_secret(path):
    text = path.read_text(encoding="utf-8")
    hcl2.loads(text)
    assert len(text.splitlines()) <= 180
    assert SECRET_ARGUMENTS.findall(text) == []


@pytest.mark.parametrize("folder", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_inputs_are_few_typed_and_described(folder):
    with (folder / "variables.tf").open(encoding="utf-8") as source:
        variables = hcl2.load(source)["variable"]
    assert len(variables) <= 9
    for block in variables:
        for name, body in block.items():
            if not name.startswith("__"):
                assert {"type", "description"} <= set(body), name


@pytest.mark.parametrize("path", sorted(ROOT.rglob("policies/*.json")), ids=lambda path: path.name)
def test_policies_without_holes_are_json(path):
    assert json.loads(path.read_text(encoding="utf-8"))["Statement"]


def test_every_policy_statement_has_a_name():
    for path in ROOT.rglob("policies/*.json*"):
        text = path.read_text(encoding="utf-8")
        assert text.count('"Effect"') == text.count('"Sid"'), path


def test_readme_tables_are_up_to_date():
    program = REPOSITORY / "scripts" / "terraform_tables.py"
    done = subprocess.run([sys.executable, program, "--check"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"out of date: {done.stdout}{done.stderr}"


def test_the_password_script_is_sound_shell_and_python():
    path = ROOT / "scripts" / "set-broker-password"
    assert subprocess.run(["bash", "-n", path], check=False, capture_output=True).returncode == 0
    program = path.read_text(encoding="utf-8").split("python3 -c '", 1)[1].rsplit("'", 1)[0]
    compile(program, "set-broker-password", "exec")
