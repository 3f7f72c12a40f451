"""Collecting on a fleet: the trials, diffs and artifacts of one process, also when workers and coordinators die."""

import json
import os
import signal
from collections import Counter

import pytest

from mst.fleet.dispatch_book import DispatchBook
from mst.runs.folder import RunFolder
from mst.testing.commandline import ended, run_mst, start_mst, until
from mst.testing.fleet import alive, fleet
from mst.testing.stored_run import write_echo_eval

pytestmark = pytest.mark.server

CASES = [f"c{number}" for number in range(1, 7)]
SCRIPT = """
id=$(cat name.txt); echo "$id $0 $TOKEN" >> {marks}/ran
while [ -e {marks}/hold-$id ]; do echo "$id $0" >> {marks}/held; sleep 0.05; done
echo "changed by $0" >> note.txt; rm gone.txt
printf '#!/bin/sh\\n' > tool.sh; chmod +x tool.sh
mkdir -p deep/er; head -c 70000 /dev/zero > deep/er/out.bin; echo "$0" >> deep/er/out.bin
echo "$0 $id" >> {marks}/finished
echo "answer of $0"
"""
CHANGES = ("runId", "attemptId", "agentDurationMs", "durationMs", "stagesMs", "startedAt")
"""Fields of a trial that may differ between two collections."""


class Bench:
    """A fleet that collects, and an eval whose program leaves marks and artifacts."""

    def __init__(self, fleet, home):
        self.fleet = fleet
        self.home = home
        self.begun = []
        self.marks = home / "marks"
        self.marks.mkdir()
        for case in CASES:
            files = home / f"files-{case}"
            files.mkdir()
            (files / "name.txt").write_text(case)
            (files / "note.txt").write_text("as it was\n")
            (files / "gone.txt").write_text("removed by the program\n")
        script = SCRIPT.format(marks=self.marks)
        token = {"secret": "CLIENT_TOKEN"}
        variants = [
            {"name": name, "client_options": {"argv": ["sh", "-c", script, name], "env": {"TOKEN": token}}}
            for name in ("plain", "polite")
        ]
        self.config = write_echo_eval(
            home,
            cases={case: {"files": f"files-{case}"} for case in CASES},
            client="command",
            client_options={"input": "none"},
            variants=variants,
            concurrency=1,
            assertions=[{"file_exists": "deep/er/out.bin"}, {"file_contains": {"path": "note.txt", "text": "polite"}}],
        )
        (home / "secrets").write_text("CLIENT_TOKEN=token-0123456789\n")

    def arguments(self, *options):
        return ["run", self.config, "--seed", "7", "--secrets-file", "secrets", "--fail-on", "never", *options]

    def start(self, *options):
        """Begin to collect on the fleet."""
        given = ["shards=3", "lease_ttl_s=2"]
        pairs = [part for one in given for part in ("--runner-option", one)]
        arguments = self.arguments("--runner", "celery", *pairs, *options)
        self.begun.append(start_mst(*arguments, cwd=self.home, env=self.fleet.coordinator, new_session=True))
        return self.begun[-1]

    def runs(self):
        return sorted((self.home / ".mst-results" / "echoes" / "runs").iterdir(), key=lambda path: path.stat().st_ctime)

    def newest(self):
        return RunFolder(self.runs()[-1])

    def lines(self, name):
        path = self.marks / name
        return path.read_text().splitlines() if path.exists() else []

    def durable(self):
        """Wait until every trial that ended is in the store, and return those."""
        book = DispatchBook(self.fleet.client)

        def done():
            heads = [book.head(scope) for scope in book.open_dispatches()]
            return sum(entry.done for head in heads if head is not None for _, entry in book.entries(head))

        until(lambda: done() >= len(self.lines("finished")), "trials are durable")
        return set(self.lines("finished"))

    def ready(self, workers):
        """Begin anew with so many workers, whatever a test that failed left."""
        for one in self.begun:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
                one.communicate()
        self.begun.clear()
        self.fleet.stop_workers()
        self.fleet.workers.clear()
        self.fleet.check()
        self.fleet.client.flushall()
        for path in self.marks.iterdir():
            path.unlink()
        for _ in range(workers):
            self.fleet.start("--work", "collect")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bench(running, tmp_path_factory.mktemp("eval"))


@pytest.fixture(scope="module")
def here(bench):
    """Collected and graded in one process."""
    said = run_mst(*bench.arguments(), cwd=bench.home)
    assert said.code == 0, said.err
    return content(bench.newest())


def content(run):
    """What a run collected: trials without what may differ, and artifacts with their mode; its scores."""
    found = {}
    for path in sorted((run.path / "transcripts").rglob("*.json")):
        for field, value in without(json.loads(path.read_bytes())).items():
            found[f"{path.relative_to(run.path)} {field}"] = value
    for path in sorted((run.path / "artifacts").rglob("*")):
        if path.is_file():
            found[str(path.relative_to(run.path))] = (path.stat().st_mode & 0o111, path.read_bytes())
    results = {(case.variant, case.id): [trial.passed for trial in case.trial_results] for case in run.case_results()}
    return found | {"results": results}


def without(value):
    if isinstance(value, dict):
        return {key: without(item) for key, item in value.items() if key not in CHANGES}
    return [without(item) for item in value] if isinstance(value, list) else value


def differs(run, here):
    there = content(run)
    return [(name, there.get(name), here.get(name)) for name in sorted({*there, *here})
            if there.get(name) != here.get(name)]  # fmt: skip


def ran_twice(bench):
    return {line for line, times in Counter(bench.lines("ran")).items() if times > 1}


def test_a_fleet_collects_what_one_process_collects(bench, here):
    bench.ready(2)
    said = ended(bench.start())
    assert said.code == 0, said.err
    assert differs(bench.newest(), here) == []
    assert len(here["results"]) == 2 * len(CASES)
    artifacts = [name for name in here if name.startswith("artifacts/") and name.endswith("tool.sh")]
    assert len(artifacts) == 2 * len(CASES)
    assert all(here[name][0] for name in artifacts), "executable files stay executable"
    assert len(bench.lines("ran")) == 2 * len(CASES)
    assert all(line.endswith("token-0123456789") for line in bench.lines("ran"))


def test_a_worker_killed_while_collecting_costs_only_the_trial_in_flight(bench, here):
    bench.ready(1)
    (bench.marks / "hold-c2").touch()
    running = bench.start()
    until(lambda: bench.lines("held"), "a program is held")
    [worker] = bench.fleet.workers.values()
    family = worker.family()
    assert any(one.name() == "sh" for one in family)
    finished = bench.durable()
    worker.kill()
    until(lambda: not any(alive(one) for one in family), "what it ran ends too")
    (bench.marks / "hold-c2").unlink()
    bench.fleet.start("--work", "collect")
    said = ended(running)
    assert said.code == 0, said.err
    assert differs(bench.newest(), here) == []
    assert len(ran_twice(bench)) == 1
    assert {" ".join(line.split()[1::-1]) for line in ran_twice(bench)}.isdisjoint(finished)


def test_a_killed_coordinator_is_finished_by_resume_from_what_the_workers_left(bench, here):
    bench.ready(2)
    (bench.marks / "hold-c2").touch()
    running = bench.start("--no-grade")
    until(lambda: bench.lines("held"), "a program is held")
    finished = bench.durable()
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    (bench.marks / "hold-c2").unlink()
    said = ended(bench.start("--resume", str(bench.newest().path)))
    assert said.code == 0, said.err
    assert differs(bench.newest(), here) == []
    twice = {" ".join(line.split()[1::-1]) for line in ran_twice(bench)}
    assert twice.isdisjoint(finished)


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_collected(bench, here):
    bench.ready(2)
    (bench.marks / "hold-c2").touch()
    running = bench.start()
    until(lambda: bench.lines("held"), "a program is held")
    before = bench.fleet.cancels_heard()
    running.send_signal(signal.SIGINT)
    until(lambda: "stopping after the units in flight" in running.stderr.readline(), "it is heard")
    until(lambda: bench.fleet.cancels_heard() > before, "a worker has heard it")
    (bench.marks / "hold-c2").unlink()
    said = ended(running)
    assert said.code == 130, said.err
    run = bench.newest()
    assert run.run().phases.collect == "partial"
    said = ended(bench.start("--resume", str(run.path)))
    assert said.code == 0, said.err
    assert differs(run, here) == []
    assert ran_twice(bench) == set()


@pytest.mark.slow
def test_an_embedded_fleet_collects_and_grades_in_one_command(bench, here):
    bench.ready(0)
    options = ["--runner", "celery", "--runner-option", "shards=2", "--grade-runner", "celery"]
    said = run_mst(*bench.arguments(*options), cwd=bench.home)
    assert said.code == 0, said.err
    assert differs(bench.newest(), here) == []
    fleet_folder = bench.home / ".mst-results" / ".fleet"
    assert [path for path in fleet_folder.rglob("*") if path.is_file() and "dispatches" in path.parts] == []
