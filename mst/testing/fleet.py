"""A fleet for tests as it really is: a Valkey, a store, keys, and `mst worker` processes that share nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from mst import __version__
from mst.fleet.adoption import attempts_in
from mst.fleet.connect import RedisClient, connect
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.keys import KeyFiles, keygen
from mst.fleet.ledger_keys import DEFAULT_PREFIX
from mst.fleet.presence import Presence
from mst.fleet.queues import queue_name
from mst.model.shard import Unit
from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.store.contract import Store
from mst.store.find import read_run
from mst.store.layout import DispatchKeys, RunKeys
from mst.store.units import StoredUnits
from mst.store.uri import open_store
from mst.testing.commandline import Said, ended, environment, run_mst, start_mst, until
from mst.testing.ledger import broken_rules
from mst.testing.quiz_eval import Quiz
from mst.testing.servers import S3Server, ValkeyServer, seaweedfs, valkey

LEASE_TTL_S = 2.0
GRADE_QUEUE = queue_name("grade", mst_version=__version__)
_PASSED = ("PATH", "HOME", "LANG", "TMPDIR")


class Worker:
    """One `mst worker` process in a folder of its own."""

    def __init__(self, name: str, home: Path, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.home = home
        self.process = process

    @property
    def log(self) -> str:
        """What it logged so far."""
        return (self.home / "log").read_text(errors="replace")

    def family(self) -> list[psutil.Process]:
        """Everything that it started and that still runs, the worker itself first."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def kill(self) -> None:
        """End it at once, as a power cut would; its children are left to notice."""
        self.process.kill()
        self.process.wait()

    def drain(self) -> int:
        """Ask it to end, wait for that, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


class Fleet:
    """What coordinators and workers of one fleet share."""

    def __init__(self, home: Path, broker: ValkeyServer, store_uri: str, store_environ: Mapping[str, str]) -> None:
        self.home = home
        self.broker = broker
        self.store_uri = store_uri
        self.keys: KeyFiles = keygen(home / "keys", evals=["*"], queues=["*"], now=datetime.now(UTC))
        self.client: RedisClient = connect(broker.url)
        self.workers: dict[str, Worker] = {}
        self.endings = ExitStack()
        self.store_environ = dict(store_environ)
        self._count = 0

    @property
    def coordinator(self) -> dict[str, str]:
        """Environment of a coordinator: it can sign, and cannot open what is sealed for the fleet."""
        return {
            "MST_BROKER_URL": self.broker.url,
            "MST_STORE": self.store_uri,
            "MST_SIGNING_KEY_FILE": str(self.keys.signing_key),
            **self.store_environ,
        }

    def cancels_heard(self) -> int:
        """How often an attempt has heard of a cancel. The ledger has it before: units that are quick end meanwhile."""
        lines = [line for worker in self.workers.values() for line in worker.log.splitlines()]
        return sum('"event": "attempt_stops"' in line and '"why": "cancelled"' in line for line in lines)

    def start(
        self, *options: str, env: Mapping[str, str] | None = None, wait: bool = True, trusted: bool = True
    ) -> Worker:
        """Start a worker and wait until it serves its queues."""
        self._count += 1
        name = f"w{self._count}"
        home = self.home / name
        home.mkdir()
        own = {key: os.environ[key] for key in _PASSED if key in os.environ}
        own |= {"PYTHONPATH": environment()["PYTHONPATH"], **self.store_environ}
        own |= {
            "MST_BROKER_URL": self.broker.url,
            "MST_STORE": self.store_uri,
            "MST_FLEET_KEY_FILE": str(self.keys.fleet_key),
            "MST_TRUSTED_SIGNERS_FILE": str(self.keys.signers),
        }
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "mst", "worker", "--name", name, "--work", "grade",
                    "--janitor-every", "0.2", "--settle", "1", *(["--trusted"] if trusted else []), *options,
                ],
                cwd=home,
                env={**own, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )  # fmt: skip
        worker = self.workers[name] = Worker(name, home, process)
        if wait:
            until(lambda: self._is_there(worker), f"{name} serves its queue")
        return worker

    def _is_there(self, worker: Worker) -> bool:
        if worker.process.poll() is not None:
            raise AssertionError(f"{worker.name} ended with {worker.process.returncode}:\n{worker.log}")
        return " ready." in worker.log and worker.name in Presence(self.client).workers(GRADE_QUEUE)

    def stop(self) -> None:
        """End all workers and what they started, and commands that a test left."""
        self.endings.close()
        self.stop_workers()
        self.client.close()

    def revive(self) -> None:
        """Start the broker again if a test left it dead."""
        if self.broker.process is None or self.broker.process.poll() is not None:
            self.broker.start()

    def is_served(self) -> bool:
        """Whether the broker knows of every worker: a coordinator sends nothing to a queue that nobody serves."""
        return set(self.workers) <= set(Presence(self.client).workers(GRADE_QUEUE))

    def is_at_work(self) -> bool:
        """Whether a dispatch is open or a message waits."""
        waits = self.client.exists(DEFAULT_PREFIX + GRADE_QUEUE)
        return bool(waits or DispatchBook(self.client).open_dispatches())

    def check(self) -> None:
        """See that the ledger keeps its rules, whatever a test did to it."""
        broken = broken_rules(self.client)
        assert not broken, broken

    def dismiss(self, worker: Worker) -> None:
        """End a worker at once and forget it: no coordinator takes it for one that serves."""
        worker.kill()
        self.workers.pop(worker.name, None)
        Presence(self.client).leave(worker.name, GRADE_QUEUE)

    def stop_workers(self) -> None:
        """End all workers and what they started; others can be started after."""
        for worker in self.workers.values():
            with suppress(psutil.NoSuchProcess):
                for one in worker.family() if worker.process.poll() is None else []:
                    with suppress(psutil.NoSuchProcess):
                        one.kill()
            worker.process.wait()


@contextmanager
def fleet(
    home: Path, *, store_uri: str | None = None, store_environ: Mapping[str, str] | None = None
) -> Iterator[Fleet]:
    """A fleet without workers yet; everything of it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="mst-fleet-") as scratch, valkey(home) as broker:
        own = Path(scratch)
        one = Fleet(own, broker, store_uri or f"file:{home / 'store'}", store_environ or {})
        try:
            yield one
            one.revive()
            one.check()
        finally:
            one.stop()


class Bed:
    """A fleet, a collected run of the quiz, and its grading in one process to compare with."""

    def __init__(self, fleet: Fleet, home: Path, *, cases: int = 6, secret: bool = False, concurrency: int = 1) -> None:
        self.fleet = fleet
        self.quiz = Quiz(home, cases=cases, secret=secret, concurrency=concurrency)
        collected = run_mst("run", self.quiz.config, "--no-grade", cwd=home)
        assert collected.code == 0, collected.err
        [run] = (home / ".mst-results" / "quiz" / "runs").iterdir()
        self.source = RunFolder(run)
        self.server: S3Server | None = None
        self._begun: list[subprocess.Popen[str]] = []
        fleet.endings.callback(self._end_commands)

    @property
    def home(self) -> Path:
        """Working folder of coordinators."""
        return self.quiz.home

    def ready(self, workers: int) -> None:
        """Begin a test anew: what the judge noted is forgotten, and so many workers are there, no other.

        A command that an earlier test left running (it failed in the middle) is killed, and what is still in flight is
        forgotten with the workers that hold it: one failure must not become the next test's.
        """
        left = self._end_commands()
        self.fleet.revive()
        self.fleet.check()
        if left or self.fleet.is_at_work():
            self.fleet.stop_workers()
            self.fleet.client.flushall()
        self.quiz.forget()
        for worker in list(self.fleet.workers.values()):
            if worker.process.poll() is not None:
                self.fleet.dismiss(worker)
        while len(self.fleet.workers) > workers:
            self.fleet.dismiss(next(reversed(self.fleet.workers.values())))
        while len(self.fleet.workers) < workers:
            self.fleet.start()
        # a test before this one may have emptied the broker: they are there again once they have said so again
        until(self.fleet.is_served, "every worker serves its queue")

    def _end_commands(self) -> int:
        """Kill what still runs of what was begun, and close what nobody read; returns how many were killed."""
        killed = 0
        for one in self._begun:
            if one.poll() is None:
                killed += 1
                os.killpg(one.pid, signal.SIGKILL)
            if one.stdout is not None and not one.stdout.closed:
                one.communicate()
        self._begun.clear()
        return killed

    def arguments(self, *options: str, shards: int = 3) -> list[str | Path]:
        """What grades the run on the fleet, with short leases."""
        given = (f"shards={shards}", f"lease_ttl_s={LEASE_TTL_S:g}")
        pairs = [part for one in given for part in ("--runner-option", one)]
        return ["grade", self.source.path, "--runner", "celery", *pairs, *options]

    def grade(self, *options: str, shards: int = 3, env: Mapping[str, str] | None = None) -> Said:
        """Grade on the fleet to the end."""
        return ended(self.start(*options, shards=shards, env=env))

    def start(self, *options: str, shards: int = 3, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start grading on the fleet, in a process group of its own."""
        return self.begin(*self.arguments(*options, shards=shards), env=env)

    def begin(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start any other command, with a coordinator's environment, in a process group of its own."""
        given = {**self.fleet.coordinator, **(env or {})}
        process = start_mst(*arguments, cwd=self.home, env=given, new_session=True)
        self._begun.append(process)
        return process

    def mst(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Said:
        """Any other command, with a coordinator's environment."""
        return ended(self.begin(*arguments, env=env))

    def newest(self) -> RunFolder:
        """The newest regrade."""
        return regrades_of(self.source)[-1]

    def here(self) -> RunFolder:
        """Graded in one process, for comparison."""
        said = run_mst("grade", self.source.path, cwd=self.home)
        assert said.code in (0, 1), said.err
        self.quiz.forget()
        return self.newest()

    def dispatch_folder(self, regrade: RunFolder, dispatch: str = "d1") -> Path:
        """A regrade's dispatch in a `file:` store."""
        return Path(self.fleet.store_uri.removeprefix("file:")) / "quiz" / "dispatches" / regrade.run_id / dispatch

    def stored(self, regrade: RunFolder, *, dispatch: str = "d1", store_uri: str | None = None) -> set[str]:
        """The answers (`A c1`) whose graded units are in the store, as objects or in packs, of any attempt."""
        store = open_store(store_uri or self.fleet.store_uri, environ=self.fleet.store_environ)
        units = stored_units(store, RunKeys("quiz", regrade.run_id).dispatch(dispatch))
        grading = [unit.trial_grading for unit in units]
        return {f"{one.key.variant.upper()} {one.key.case_id}" for one in grading if one is not None}

    def durable(self, regrade: RunFolder | None = None) -> set[str]:
        """Wait until every answer that the judge gave is in the store, and return them."""
        until(lambda: set(self.quiz.lines("answered")) <= self.stored(regrade or self.newest()), "units are durable")
        return set(self.quiz.lines("answered"))

    def manifests(self, regrade: RunFolder, dispatch: str = "d1") -> list[Path]:
        """The manifests of its shards."""
        return sorted(self.dispatch_folder(regrade, dispatch).glob("shards/*/manifest.json"))

    def scope(self, regrade: RunFolder, dispatch: str = "d1") -> str:
        """The name of a regrade's dispatch in the broker."""
        return f"{regrade.run_id}.{dispatch}.grade"


def unpush(store_uri: str, eval_name: str, run_id: str) -> None:
    """Leave in a store what a push leaves that is killed just before its manifest: the one of before counts."""
    store, keys = open_store(store_uri), RunKeys(eval_name, run_id)
    # two that pushed at once may both have put one
    while (found := read_run(store, keys)) is not None and found.manifest.complete:
        store.delete(keys.manifest(found.manifest.generation))
    assert found is not None


def stored_units(store: Store, keys: DispatchKeys) -> Iterator[Unit]:
    """The units of a dispatch that are in its store, as objects or in packs, of any attempt."""
    for shard in store.list_folder(keys.shards).folders:
        for attempt in attempts_in(store, keys.shard(int(shard))):
            stored = StoredUnits(store, keys.shard(int(shard)), attempt)
            names = [name for name in stored.names if name.endswith(".json")]
            yield from (Unit.from_json(data, name) for name, data in stored.read(names))


@contextmanager
def s3_bed(folder: Callable[[str], Path]) -> Iterator[Bed]:
    """A bed whose fleet shares a real S3 server, which the bed has as `server`.

    Args:
        folder: makes an empty folder, given a name for it: `tmp_path_factory.mktemp`.
    """
    with (
        seaweedfs(folder("s3")) as server,
        fleet(folder("fleet"), store_uri=server.uri("team"), store_environ=server.environ()) as running,
    ):
        bed = Bed(running, folder("quiz"))
        bed.server = server
        yield bed


def alive(process: psutil.Process) -> bool:
    """Whether a process still runs."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
