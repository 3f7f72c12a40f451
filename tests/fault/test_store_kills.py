"""Whoever writes into a store is killed, between any two of its steps and at random: readers see the old or the new."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from mst.model.keys import segment
from mst.store import open_store
from mst.store.commit import read_latest
from mst.store.fetch import fetch_run, fetch_source
from mst.store.find import generations, read_run
from mst.store.gc import find_leftovers
from mst.store.layout import RunKeys
from mst.store.units import StoredUnits
from mst.store.verify import verify_run
from mst.testing.servers import fake_gcs, seaweedfs

RUN = "20260102T030405Z-abc123"
KEYS = RunKeys("e", RUN)
KILLS = int(os.environ.get("MST_TEST_KILLS", "40"))
"""How many random kills; the figures in benchmarks/ are of 500."""

# A process without threads that imports once and forks for each writer. A line asks: action, store, folder, kill before
# that operation (-1: never; a writer that is killed from outside goes on until then). It answers with the child's PID
# and, when that ended, how.
WRITERS = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from mst.model.run import LatestRecord
from mst.store import open_store
from mst.store.fetch import fetch_run
from mst.store.find import read_run
from mst.store.gc import find_leftovers, remove
from mst.store.layout import RunKeys
from mst.store.publish import RunFacts, push_run
from mst.store.sink import UnitFiles, UnitSink

RUN = "20260102T030405Z-abc123"
FACTS = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
WRITES = {"put", "put_if_absent", "replace_if_match", "delete", "get", "get_to", "get_range", "head", "list"}

class Mortal:
    def __init__(self, inner, left):
        self._inner, self._left = inner, left
    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if name not in WRITES or self._left is None:
            return found
        def call(*args, **more):
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1
            return found(*args, **more)
        return call

def push(store, folder, **more):
    at = "2026-01-02T00:00:00Z"
    record = LatestRecord(run_id=RUN, created_at=at, collected_at=at, path="runs/" + RUN)
    push_run(store, folder, eval_name="e", run_id=RUN, facts=FACTS, latest=record, **more)

def push_in_order(store, folder):
    push(store, folder, workers=1)

def regrade(store, folder):
    source = read_run(store, RunKeys("e", RUN))
    push_run(store, folder, eval_name="e", run_id=RUN + ".g2", facts=FACTS, source=source, workers=1)

def fetch(store, folder):
    fetch_run(store, eval_name="e", run_id=RUN, into=folder, workers=1)

def collect(store, folder):
    for leftover in find_leftovers(store, "e", age=timedelta(days=1)):
        remove(store, leftover)

def units(store, folder):
    shard = RunKeys("e", RUN).dispatch("d1").shard(0)
    told = os.open(folder.parent / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with UnitSink(store, shard, "1-a", stored=lambda names: os.write(told, "".join(n + " " for n in names).encode()),
                  spacing_s=0.002, senders=1) as sink:
        for path in sorted(folder.iterdir()):
            sink.take(UnitFiles(path.name, path))

ACTIONS = {
    "push": push_in_order, "push-as-users-do": push, "regrade": regrade, "fetch": fetch, "gc": collect, "units": units
}

def act(action, uri, folder, left):
    ACTIONS[action](Mortal(open_store(uri), None if left < 0 else left), Path(folder))

if sys.argv[1:]:
    act(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.exit()
for line in sys.stdin:
    action, uri, folder, left = line.split()
    child = os.fork()
    if child == 0:
        try:
            act(action, uri, folder, int(left))
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Writers:
    """Writers in processes of their own."""

    def __init__(self, environ=None):
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITERS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environ or {}),
        )

    def run(self, action, uri, folder, *, before=-1, after_s=None):
        """How the writer ended: 0, or -9 when it was killed before an operation or after a time."""
        self._process.stdin.write(f"{action} {uri} {folder} {before}\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        killer = None
        if after_s is not None:
            killer = threading.Timer(after_s, _kill, [pid])
            killer.start()
        code = int(self._process.stdout.readline())
        if killer is not None:
            killer.cancel()
            killer.join()
        return code

    def end(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


def _kill(pid):
    # Its parent has not reaped it before it answers, so the number is still its own, or free.
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture(scope="module")
def writers():
    made = Writers()
    yield made
    made.end()


def make(folder, files):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def contents(version, count=12):
    changed = {f"t/{number}.json": f"{version if number % 3 else 'same'} {number}".encode() for number in range(count)}
    large = hashlib.sha256(version.encode()).digest() * 40_000
    return {"run.json": version.encode(), f"only-{version}": b"x", "large": large, **changed}


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def seen(store, tmp_path, name):
    """What a reader gets now."""
    into = tmp_path / f"read-{name}"
    fetch_run(store, eval_name="e", run_id=RUN, into=into)
    return tree(into)


def stepwise(writers, action, uri, folder, most=200):
    """Kill before each operation in turn, on stores that `uri` makes, until the writer comes to its end."""
    for step in range(most):
        here = uri(step)
        code = writers.run(action, here, folder(step), before=step)
        assert code in (0, -9)
        yield step, here
        if code == 0:
            return
    pytest.fail("the writer never came to its end")


@pytest.fixture
def versions(tmp_path):
    return {name: make(tmp_path / name, contents(name)) for name in ("old", "new")}


def test_a_push_killed_between_any_two_steps(writers, versions, tmp_path):
    def uri(step):
        found = f"file:{tmp_path / f'store{step}'}"
        assert writers.run("push", found, versions["old"]) == 0
        return found

    states = []
    for step, here in stepwise(writers, "push", uri, lambda _: versions["new"]):
        store = open_store(here)
        got = seen(store, tmp_path, step)
        assert got in (contents("old"), contents("new"))
        states.append(got == contents("new"))
        assert read_latest(store, "e").run_id == RUN
        assert list(verify_run(store, KEYS)) == []
        assert writers.run("push", here, versions["new"]) == 0
        assert generations(store, KEYS) == [2, 1]
        assert seen(store, tmp_path, f"{step}-after") == contents("new")
    assert states == sorted(states)
    assert set(states) == {False, True}
    assert len(states) > 8


def test_a_first_push_killed_between_any_two_steps(writers, versions, tmp_path):
    states = []
    for step, here in stepwise(writers, "push", lambda n: f"file:{tmp_path / f's{n}'}", lambda _: versions["new"]):
        store = open_store(here)
        found, latest = read_run(store, KEYS), read_latest(store, "e")
        assert latest is None or found is not None
        if found is not None:
            assert seen(store, tmp_path, step) == contents("new")
        states.append((found is not None, latest is not None))
        assert writers.run("push", here, versions["new"]) == 0
        assert generations(store, KEYS) == [1]
    assert states == sorted(states)
    assert set(states) == {(False, False), (True, False), (True, True)}


def test_a_regrade_killed_between_any_two_steps(writers, versions, tmp_path):
    grades = make(tmp_path / "grades", {"run.json": b"regrade", "scores/1": b"1", "scores/2": b"2"})

    def uri(step):
        found = f"file:{tmp_path / f'store{step}'}"
        assert writers.run("push", found, versions["old"]) == 0
        return found

    states = []
    for step, here in stepwise(writers, "regrade", uri, lambda _: grades):
        store = open_store(here)
        found = read_run(store, RunKeys("e", f"{RUN}.g2"))
        states.append(found is not None)
        if found is not None:
            fetch_source(store, found.manifest, into=tmp_path / f"source{step}")
            assert tree(tmp_path / f"source{step}") == contents("old")
        assert seen(store, tmp_path, step) == contents("old")
    assert states == sorted(states)
    assert set(states) == {False, True}


def test_a_fetch_killed_between_any_two_steps(writers, versions, tmp_path):
    uri = f"file:{tmp_path / 'store'}"
    assert writers.run("push", uri, versions["old"]) == 0
    for step, _ in stepwise(writers, "fetch", lambda _: uri, lambda n: tmp_path / f"got{n}"):
        into = tmp_path / f"got{step}"
        assert not into.exists() or tree(into) == contents("old")
    assert into.exists()


def age(root, seconds):
    for path in Path(root).rglob("*"):
        if path.is_file():
            at = path.stat().st_mtime - seconds
            os.utime(path, (at, at))


def test_a_collection_killed_between_any_two_steps(writers, versions, tmp_path):
    shard = KEYS.dispatch("d1").shard(0)
    units = make(tmp_path / "units", {f"u{number}": b"unit" for number in range(3)})

    def uri(step):
        found = f"file:{tmp_path / f'store{step}'}"
        store = open_store(found)
        for version in ("old", "new"):
            assert writers.run("push", found, versions[version]) == 0
        assert writers.run("units", found, units) == 0
        (tmp_path / "told").unlink()
        for key in (shard.manifest, shard.dispatch.record, shard.dispatch.closed):
            store.put(key, b"{}")
        age(tmp_path / f"store{step}", timedelta(days=30).total_seconds())
        return found

    for step, here in stepwise(writers, "gc", uri, lambda _: tmp_path):
        store = open_store(here)
        assert seen(store, tmp_path, step) == contents("new")
        keys = {info.key for info in store.list(shard.folder)}
        assert shard.manifest not in keys or len(keys) > 1
        if shard.manifest in keys:
            assert StoredUnits(store, shard, "1-a").names == {"u0", "u1", "u2"}
    assert keys == set()
    assert find_leftovers(store, segment("e"), age=timedelta(days=1)) == []


def test_units_of_a_killed_worker_are_found_when_they_were_reported(writers, tmp_path):
    files = {f"u{number:03}": f"unit {number}".encode() * 50 for number in range(60)}
    folder, counts = make(tmp_path / "units", files), []
    for step, here in stepwise(writers, "units", lambda n: f"file:{tmp_path / f's{n}'}", lambda _: folder):
        told = set((tmp_path / "told").read_text().split()) if (tmp_path / "told").exists() else set()
        (tmp_path / "told").unlink(missing_ok=True)
        store, shard = open_store(here), KEYS.dispatch("d1").shard(0)
        found = StoredUnits(store, shard, "1-a")
        assert told <= found.names, step
        assert dict(found.read(found.names)) == {name: files[name] for name in found.names}
        counts.append(len(told))
    assert counts[-1] == 60


@contextmanager
def random_kills_in(kind, folder):
    """The URIs of stores by number, in which pushes are killed at random, and who makes these."""
    if kind == "file":
        writers = Writers()
        yield lambda number: f"file:{folder / 'store'}/{number}", {}, writers
        writers.end()
        return
    if kind == "gs":
        with fake_gcs(folder) as server:
            writers = Writers()
            yield lambda number: server.uri(f"kills/{number}"), {}, writers
            writers.end()
        return
    with seaweedfs(folder / "weed", volume_mb=512) as server:  # Nobody removes what 500 pushes leave.
        writers = Writers(server.environ())
        yield lambda number: server.uri(f"kills/{number}"), server.environ(), writers
        writers.end()


def several_packs(version):
    """So many new bytes that packs, their indexes and a large file are under way at once."""
    blocks = {
        f"b/{number}": hashlib.shake_256(f"{version} {number}".encode()).digest(500_000) for number in range(1, 18)
    }
    return contents(version) | blocks


@pytest.mark.server
@pytest.mark.timeout(120 + 6 * KILLS)
@pytest.mark.parametrize("kind", ["file", "s3", pytest.param("gs", marks=pytest.mark.long)])
def test_pushes_killed_at_random_lose_and_mix_nothing(kind, tmp_path, capsys):
    """A store to which one state after the other is pushed; each push is killed at some moment, or comes through."""
    seed = int(os.environ.get("MST_TEST_SEED", "7"))
    draw, ends, before = random.Random(seed), Counter(), {}
    with random_kills_in(kind, tmp_path) as (place, environ, writers):
        while ends["killed"] < KILLS:
            number = ends.total()
            if number % 25 == 0:  # Another store, so that no disk gets full.
                shutil.rmtree(tmp_path / "store", ignore_errors=True)
                here, before = place(number), several_packs(str(number))
                folder = make(tmp_path / "first", before)
                began = time.monotonic()
                assert writers.run("push-as-users-do", here, folder) == 0
                whole_s = time.monotonic() - began
                shutil.rmtree(folder)
            state = several_packs(f"{number} next")
            folder = make(tmp_path / f"state-{number}", state)
            code = writers.run("push-as-users-do", here, folder, after_s=draw.uniform(0, 1.2 * whole_s))
            shutil.rmtree(folder)
            got = seen(open_store(here, environ=environ), tmp_path, number)
            shutil.rmtree(tmp_path / f"read-{number}")
            assert got in (before, state), f"lost or mixed after {ends} (seed {seed})"
            assert code in (0, -9)
            assert code != 0 or got == state
            ends["killed" if code else "came through"] += 1
            before = got
            if number % 10 == 0:
                assert list(verify_run(open_store(here, environ=environ), KEYS)) == []
    with capsys.disabled():
        print(f"\n{kind}: {dict(ends)}, seed {seed}")  # noqa: T201 - the figure of benchmarks/


@pytest.mark.server
def test_a_push_to_s3_killed_between_any_two_steps(versions, tmp_path, monkeypatch):
    with seaweedfs(tmp_path / "weed") as server:
        for name, value in server.environ().items():
            monkeypatch.setenv(name, value)
        states = []
        for step in range(100):
            uri = server.uri(f"kills/{step}")

            def push(version, before, uri=uri):
                argv = [sys.executable, "-c", WRITERS, "push", uri, str(versions[version]), str(before)]
                return subprocess.run(argv, check=False, timeout=120).returncode

            assert push("old", -1) == 0
            code = push("new", step)
            store = open_store(uri)
            got = seen(store, tmp_path, step)
            assert got in (contents("old"), contents("new"))
            states.append(got == contents("new"))
            if code == 0:
                break
            assert code == -9
    assert code == 0
    assert states == sorted(states)
    assert set(states) == {False, True}
