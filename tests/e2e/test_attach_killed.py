"""`mst attach` after `kill -9` of an ordinary `mst run`, wherever it was: it comes to the end that nobody disturbed."""

import signal
from collections import Counter

import psutil
import pytest

from mst.runs.folder import RunFolder
from mst.runs.locate import latest_run
from mst.testing.commandline import call_mst, ended, run_mst, start_mst, until
from mst.testing.stored_run import write_echo_eval

CASES = ("c1", "c2", "c3")
SCRIPT = """
id=$(cat name.txt); echo "$id" >> {marks}/ran
while [ -e {marks}/hold-$id ]; do echo "$id $$" >> {marks}/held; sleep 0.05; done
echo "answer to $id"
"""
RESULTS = {"c1": [False], "c2": [True], "c3": [False]}
EMBEDDED = ("--runner", "celery", "--runner-option", "shards=1", "--runner-option", "workers=1")


class Bench:
    """An eval whose program notes its case and can be held."""

    def __init__(self, home):
        self.home = home
        self.marks = home / "marks"
        self.marks.mkdir()
        for case in CASES:
            (home / f"files-{case}").mkdir()
            (home / f"files-{case}" / "name.txt").write_text(case)
        self.config = write_echo_eval(
            home,
            cases={case: {"files": f"files-{case}"} for case in CASES},
            client="command",
            client_options={"input": "none", "argv": ["sh", "-c", SCRIPT.format(marks=self.marks)]},
            variants=[{"name": "plain"}],
            concurrency=1,
            assertions=[{"contains_text": "answer to c2"}],
        )

    def begin_and_kill(self, *options, held):
        """Run it, and kill the command, and it alone, once the program is held."""
        for mark in self.marks.iterdir():
            mark.unlink()
        (self.marks / f"hold-{held}").touch()
        process = start_mst("run", self.config, "--seed", "7", *options, cwd=self.home)
        until(lambda: self.lines("held"), "the program is held")
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        assert ended(process).code == -signal.SIGKILL
        (self.marks / f"hold-{held}").unlink()
        until(lambda: not any(alive(one) for one in family), "what it started is over")
        return self.newest()

    def lines(self, name):
        path = self.marks / name
        return path.read_text().splitlines() if path.exists() else []

    def newest(self):
        return RunFolder(max((self.home / ".mst-results" / "echoes" / "runs").iterdir()))

    def results(self, folder):
        return {case.id: [trial.passed for trial in case.trial_results] for case in folder.case_results()}


def alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("eval"))


@pytest.mark.parametrize(
    "options", [pytest.param((), id="local"), pytest.param(EMBEDDED, id="embedded", marks=pytest.mark.server)]
)
def test_a_run_that_was_killed_while_it_collected_is_finished_where_it_was_begun(bench, options):
    folder = bench.begin_and_kill(*options, held="c3")
    assert folder.run().phases.collect == "partial"
    said = run_mst("attach", folder.run_id[-6:], "--fail-on", "never", cwd=bench.home)
    assert said.code == 0, said.err
    assert bench.newest().path == folder.path
    assert bench.results(folder) == RESULTS
    assert folder.run().phases.to_dict() == {"collect": "complete", "grade": "complete"}
    assert latest_run(bench.home / ".mst-results").path == folder.path
    # what was in flight was begun again
    assert Counter(bench.lines("ran")) - Counter(CASES) == {"c3": 1}
    assert [path.name for path in (bench.home / ".mst-results").glob(".fleet/echoes/dispatches/*")] == []


def test_a_grading_that_was_killed_before_its_report_is_ended(bench, monkeypatch, capsys):
    monkeypatch.chdir(bench.home)
    assert call_mst(capsys, "run", bench.config, "--fail-on", "never").code == 0
    folder = bench.newest()
    (folder.path / "report" / "index.html").unlink()
    (folder.path.parent.parent / "latest.json").unlink()
    folder.work.mkdir()
    left = bench.home / ".mst-results" / ".fleet" / "echoes" / "dispatches" / folder.run_id / "d1"
    left.mkdir(parents=True)
    said = call_mst(capsys, "attach", folder.run_id[-6:], "--fail-on", "any-failure")
    assert said.code == 1, said.err
    assert folder.run_id[-6:] in said.out
    assert (folder.path / "report" / "index.html").is_file()
    assert latest_run(bench.home / ".mst-results").path == folder.path
    assert not folder.work.exists()
    assert not left.exists()
    again = call_mst(capsys, "attach", folder.run_id[-6:])
    assert again.code == 2
    assert "no open regrade" in again.err
