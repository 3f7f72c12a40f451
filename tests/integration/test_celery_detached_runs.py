"""`mst run --detach`: collected on the fleet with nobody waiting, then taken over, collected to its end and graded."""

import json
import os
import signal
from collections import Counter

import pytest

from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.ledger_states import FINAL
from mst.runs.folder import RunFolder
from mst.testing.commandline import call_mst, ended, run_mst, start_mst, until
from mst.testing.fleet import fleet, unpush
from mst.testing.stored_run import write_echo_eval

pytestmark = pytest.mark.server

CASES = [f"c{number}" for number in range(1, 5)]
VARIANTS = ("plain", "polite")
SCRIPT = """
id=$(cat name.txt); echo "$id $0" >> {marks}/ran
while [ -e {marks}/hold ] && [ ! -e "{marks}/go-$id $0" ]; do echo "$id $0" >> {marks}/held; sleep 0.05; done
echo "changed by $0" >> note.txt
echo "answer of $0"
"""


class Bench:
    """A fleet, and an eval whose program leaves marks."""

    def __init__(self, fleet, home):
        self.fleet = fleet
        self.home = home
        self.stopped = 0
        self.marks = home / "marks"
        self.marks.mkdir()
        for case in CASES:
            files = home / f"files-{case}"
            files.mkdir()
            (files / "name.txt").write_text(case)
        script = SCRIPT.format(marks=self.marks)
        self.config = write_echo_eval(
            home,
            cases={case: {"files": f"files-{case}"} for case in CASES},
            client="command",
            client_options={"input": "none"},
            variants=[{"name": name, "client_options": {"argv": ["sh", "-c", script, name]}} for name in VARIANTS],
            concurrency=1,
            assertions=[{"file_contains": {"path": "note.txt", "text": "by polite"}}],
        )

    def arguments(self, *options):
        return ["run", self.config, "--seed", "7", "--fail-on", "never", *options]

    def detach(self, *options):
        """Hold every program, send the run out, and see that nobody waits for it."""
        self.stopped = self.stops()
        for mark in self.marks.iterdir():
            mark.unlink()
        (self.marks / "hold").touch()
        fleet = ["--runner", "celery", "--runner-option", "shards=2", "--runner-option", "lease_ttl_s=2", "--detach"]
        said = run_mst(*self.arguments(*fleet, *options), cwd=self.home, env=self.fleet.coordinator)
        assert said.code == 0, said.err
        run_id = said.out.split(":")[0]
        assert said.out == f"{run_id}: d1 sent, 2 shards; they are collected without this command\n"
        assert f"mst attach {run_id}" in said.err
        until(lambda: len(set(self.lines("held"))) == 2, "a program of each shard is held")
        return Run(run_id, self.home)

    def begin(self, home, *arguments):
        """A command in a folder: this one, or another machine's that has the fleet's settings and nothing else."""
        home.mkdir(exist_ok=True)
        process = start_mst(*arguments, cwd=home, env=self.fleet.coordinator, new_session=True)
        self.fleet.endings.callback(end, process)
        return process

    def attach(self, run_id, home):
        return self.begin(home, "attach", run_id, "--fail-on", "never")

    def let_go(self):
        (self.marks / "hold").unlink()

    def let_those_go(self, is_over):
        """Let programs end one after another until the shards stop, as they were told: long before they are through."""
        until(lambda: self.stops() == self.stopped + 2, "both workers were told to stop")

        def those():
            for held in set(self.lines("held")):
                (self.marks / f"go-{held}").touch()
            return is_over()

        until(those, "they stop after the programs under way")
        self.let_go()

    def stops(self):
        """How often a worker was told to stop a shard."""
        return sum(worker.log.count("attempt_stops") for worker in self.fleet.workers.values())

    def is_over(self):
        """Whether nothing that was sent is still to be done."""
        book = DispatchBook(self.fleet.client)
        heads = [head for head in map(book.head, book.open_dispatches()) if head is not None]
        return all(entry.state in FINAL for head in heads for _, entry in book.entries(head))

    def lines(self, name):
        path = self.marks / name
        return path.read_text().splitlines() if path.exists() else []


def end(process):
    """End a command that a test left."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Run:
    """A run as one machine has it."""

    def __init__(self, run_id, home):
        self.run_id = run_id
        self.folder = RunFolder(home / ".mst-results" / "echoes" / "runs" / run_id)

    def on(self, home):
        return Run(self.run_id, home)

    def results(self):
        """What it collected and how that was graded."""
        results = {}
        for case in self.folder.case_results():
            results[case.variant, case.id] = [(trial.passed, trial.grading_error) for trial in case.trial_results]
        texts = {}
        for path in sorted((self.folder.path / "transcripts").rglob("*.json")):
            record = json.loads(path.read_bytes())
            texts[path.name, record["variant"], record["caseId"]] = (record["transcript"], record["diff"])
        return results, texts


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        for _ in range(2):
            running.start("--work", "collect")
        yield Bench(running, tmp_path_factory.mktemp("eval"))


@pytest.fixture
def mst(bench, monkeypatch, capsys):
    """Runs a command in this process, in a folder, as a coordinator of the fleet."""

    def run(home, *arguments, **settings):
        monkeypatch.chdir(home)
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        for name, value in (bench.fleet.coordinator | settings).items():
            monkeypatch.setenv(name, value)
        return call_mst(capsys, *arguments)

    return run


@pytest.fixture(scope="module")
def here(bench):
    """Collected and graded in one process."""
    said = run_mst(*bench.arguments(), cwd=bench.home)
    assert said.code == 0, said.err
    [path] = (bench.home / ".mst-results" / "echoes" / "runs").iterdir()
    return Run(path.name, bench.home).results()


def test_whoever_attaches_collects_to_the_end_and_grades_whatever_became_of_those_before(bench, here, mst, tmp_path):
    run, laptop = bench.detach(), tmp_path / "laptop2"
    assert run.folder.run().phases.to_dict() == {"collect": "partial", "grade": "skipped"}
    shown = json.loads(mst(tmp_path, "ps", "--json").out)["runs"]
    assert [(one["runId"], one["work"], one["dispatch"]) for one in shown] == [(run.run_id, "collect", "d1")]
    # a coordinator is killed in the middle
    first = bench.attach(run.run_id, laptop)
    until(run.on(laptop).folder.is_locked, "it is attached")
    os.killpg(first.pid, signal.SIGKILL)
    ended(first)
    # two at once, on two machines, come to the same
    both = [bench.attach(run.run_id, laptop), bench.attach(run.run_id, bench.home)]
    until(lambda: run.on(laptop).folder.is_locked() and run.folder.is_locked(), "both are attached")
    bench.let_go()
    for over in map(ended, both):
        assert over.code == 0, over.err
    for one in (run.on(laptop), run):
        assert one.results() == here
        assert one.folder.run().phases.to_dict() == {"collect": "complete", "grade": "complete"}
        assert (one.folder.path / "report" / "index.html").is_file()
    assert Counter(bench.lines("ran")) == Counter(f"{case} {variant}" for case in CASES for variant in VARIANTS)
    # one that was killed in its last push left all but the manifest
    unpush(bench.fleet.store_uri, "echoes", run.run_id)
    finished = mst(laptop, "attach", run.run_id)
    assert finished.code == 0, finished.err
    assert f"pushed to {bench.fleet.store_uri}" in finished.err
    # the store has it, and there is nothing to go on with
    stored = mst(tmp_path, "show", run.run_id, "--results", bench.fleet.store_uri)
    assert stored.code in (0, 1), stored.err
    late = mst(laptop, "attach", run.run_id)
    assert late.code == 2
    assert "no open regrade" in late.err


def test_what_an_interrupted_one_left_is_sent_by_one_of_two_and_graded_by_one_of_two(bench, here, tmp_path):
    run, first = bench.detach("--grade-runner", "celery", "--grade-runner-option", "shards=2"), tmp_path / "first"
    stopped = bench.attach(run.run_id, first)
    until((run.on(first).folder.work / "d1" / "plan.json").is_file, "it follows")
    stopped.send_signal(signal.SIGINT)
    until(lambda: "stopping after the units in flight" in stopped.stderr.readline(), "it is heard")
    bench.let_those_go(lambda: stopped.poll() is not None)
    assert ended(stopped).code == 130
    # neither machine has the eval; what was sent before is sent again
    machines = [tmp_path / "one", tmp_path / "two"]
    for over in map(ended, [bench.attach(run.run_id, home) for home in machines]):
        assert over.code == 0, over.err
    for home in machines:
        assert run.on(home).results() == here
        assert run.on(home).folder.run().grading.runner.dispatches == ["d3"]
    assert Counter(bench.lines("ran")) == Counter(f"{case} {variant}" for case in CASES for variant in VARIANTS)


def test_a_cancel_from_anywhere_ends_it_and_resume_finishes_it(bench, here, mst, tmp_path):
    run = bench.detach("--no-grade")
    said = mst(tmp_path, "cancel", run.run_id)
    assert said.code == 0, said.err
    bench.let_those_go(bench.is_over)
    attached = mst(bench.home, "attach", run.run_id)
    assert attached.code == 3, attached.err
    assert "--resume" in attached.err
    resumed = mst(bench.home, *bench.arguments("--resume", run.folder.path))
    assert resumed.code == 0, resumed.err
    assert run.results() == here


def test_what_cannot_be_left_is_refused_before_anything_is_sent(bench, mst, tmp_path):
    fleet = ["--runner", "celery", "--detach"]
    for options, env, words in (
        (["--runner", "process", "--detach"], {}, "only shards on a fleet"),
        (fleet, {"MST_BROKER_URL": ""}, "MST_BROKER_URL"),
        ([*fleet, "--fail-fast"], {}, "--fail-fast"),
        ([*fleet, "--results", f"file:{tmp_path}"], {}, "leave out --results"),
    ):
        said = mst(bench.home, *bench.arguments("--output-dir", tmp_path / "none", *options), **env)
        assert said.code == 2, said.err
        assert said.error_lines[-1].startswith("mst: --detach: ")
        assert words in said.error_lines[-1]
    assert not (tmp_path / "none").exists()
