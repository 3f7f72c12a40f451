"""The import contracts bite: each planted violation breaks the contract that is meant to catch it.

The rooms are empty here but for what is planted, so this shows that the rules work; `lint-imports` shows that the code
keeps them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path.name for path in (ROOT / "mst").iterdir() if (path / "__init__.py").is_file())

ROWS = "rooms: a row may import rows below it BROKEN"
TESTING = "contract suites are for tests BROKEN"
CYCLES = "no cycles BROKEN"
PURE = "decisions are pure BROKEN"
PLANTED = {
    "a store imports a runner": ({"store/x.py": "import mst.runners"}, ROWS),
    "grading imports collecting, which stands on its row": ({"grade/x.py": "import mst.collect"}, ROWS),
    "a judge imports a client": ({"judges/x.py": "from mst.clients import y", "clients/y.py": ""}, ROWS),
    "shards import the fleet": ({"shards/x.py": "import mst.fleet"}, ROWS),
    "the report imports shards": ({"report/x.py": "import mst.shards"}, ROWS),
    "the model imports the config": ({"model/x.py": "import mst.config"}, ROWS),
    "errors import the model": ({"errors.py": "import mst.model"}, ROWS),
    "a room that is on no row": ({"utils/__init__.py": ""}, "utils"),
    "the product imports the contract suites": ({"report/x.py": "import mst.testing"}, TESTING),
    "rooms import each other": ({"config/x.py": "import mst.process", "process/y.py": "import mst.config"}, CYCLES),
    "the model talks to Redis": ({"model/x.py": "import redis"}, PURE),
    "statistics look at the clock": ({"stats/x.py": "import time"}, PURE),
    "the model starts programs through another module": (
        {"model/x.py": "import mst.model.y", "model/y.py": "import subprocess"},
        PURE,
    ),
}


@pytest.fixture
def skeleton(tmp_path):
    """The rooms without their contents, and the contracts."""
    for room in ROOMS:
        (tmp_path / "mst" / room).mkdir(parents=True)
        (tmp_path / "mst" / room / "__init__.py").touch()
    for module in ("__init__.py", "__main__.py", "errors.py"):
        (tmp_path / "mst" / module).touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder):
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_house_without_its_contents_keeps_every_contract(skeleton):
    code, output = lint(skeleton)
    assert code == 0, output
    assert "4 kept, 0 broken" in output


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_a_planted_violation_is_caught(skeleton, planted):
    files, contract = PLANTED[planted]
    for name, text in files.items():
        path = skeleton / "mst" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n")
    code, output = lint(skeleton)
    assert code == 1, output
    assert contract in output
