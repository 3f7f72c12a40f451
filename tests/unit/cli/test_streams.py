"""Standard streams that are closed, full or read by nobody: no trace, and the exit code that the command has."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from mst.testing.commandline import environment
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval


@dataclass(frozen=True)
class Home:
    path: Path
    run: str


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a graded run, of which one variant fails in every case."""
    path = tmp_path_factory.mktemp("home")
    graded = grade_here(collect_run(write_echo_eval(path / "eval"), path / ".mst-results"), path / "scratch")
    return Home(path, graded.folder.run_id)


def shell(line, home):
    """Run a shell line in which `$MST` is mst; what came on stdout and stderr, and the exit code."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=home.path,
        env=environment(MST=f"{sys.executable} -m mst", RUN=home.run, LC_ALL="C.UTF-8"),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.parametrize(("gate", "code"), [("never", 0), ("any-failure", 1)])
def test_a_reader_that_leaves_early_changes_no_exit_code(home, gate, code):
    reading, writing = os.pipe()
    os.close(reading)
    said = subprocess.run(
        [sys.executable, "-m", "mst", "show", home.run, "--fail-on", gate],
        cwd=home.path,
        env=environment(),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=180,
        check=False,
    )
    os.close(writing)
    assert (said.returncode, "Traceback" in said.stderr) == (code, False), said.stderr


def test_streams_that_are_closed_are_no_files_of_ours(home):
    said = shell("$MST grade $RUN --fail-on never <&- >&- 2>&-", home)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    assert shell("$MST ls", home).stdout.count("complete") == 2


def test_a_log_on_a_full_disk_ends_no_run(home):
    said = shell("$MST grade $RUN --fail-on never 2>/dev/full", home)
    assert (said.returncode, "polite" in said.stdout) == (0, True)


def test_a_full_stdout_is_an_error(home):
    said = shell("$MST export $RUN --to csv >/dev/full", home)
    assert (said.returncode, said.stderr) == (4, "mst: No space left on device\n")
