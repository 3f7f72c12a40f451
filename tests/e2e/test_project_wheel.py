"""The wheel holds everything: installed where the checkout is not seen, commands and examples work."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(*words, cwd, ok=(0,)):
    """A program that knows nothing of the checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MST_", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=kept, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode in ok, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built with the locked backend of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("mst-*.whl")
    return built


@pytest.fixture(scope="module")
def program(wheel, tmp_path_factory):
    """`mst` in a new environment: the wheel itself is installed there, the libraries are those of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", wheel, cwd=folder)
    site = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=folder).strip())
    libraries = Path(pytest.__file__).parents[1]
    # A plain path: the .pth files in there, which would bring the checkout in, are not followed.
    (site / "libraries.pth").write_text(f"{libraries}\n")
    where = run(python, "-c", "import mst; print(mst.__file__)", cwd=folder).strip()
    assert Path(where).is_relative_to(folder)
    return folder / "bin" / "mst"


def test_the_wheel_holds_data_and_no_left_overs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for wanted in (
        "mst/examples/python-fixers/eval.yaml",
        "mst/examples/python-fixers/cases/query-none/files/mod.py",
        "mst/examples/mcp-git/eval.yaml",
        "mst/fleet/lua/prelude.lua",
        "mst/report/templates/report.html.j2",
        "mst/report/assets/report.js",
        "mst/cli/starter/eval.yaml",
    ):
        assert wanted in names
    for part in (".venvs", "__pycache__", ".mst-results", ".pyc"):
        assert not [name for name in names if part in name]


def test_a_new_eval_runs_from_the_wheel(program, tmp_path):
    assert "Usage: mst" in run(program, "--help", cwd=tmp_path)
    run(program, "init", "x", cwd=tmp_path)
    shown = run(program, "run", "x/eval.yaml", cwd=tmp_path, ok=(0, 1))
    assert "new" in shown
    assert "report: " in shown
    assert list(tmp_path.glob(".mst-results/slugs/runs/*/report/index.html"))


def test_the_example_comes_with_the_wheel(program, tmp_path):
    examples = next(program.parents[1].glob("lib/python*/site-packages/mst/examples"))
    shown = run(program, "run", examples / "hello" / "eval.yaml", "--fail-on", "never", cwd=tmp_path)
    assert "3 of 3" in shown
