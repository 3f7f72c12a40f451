"""A real S3 server behind a line that breaks: every fault has one defined outcome."""

import dataclasses
import itertools
import os
import socket
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from mst.errors import (
    CorruptFile,
    DigestMismatch,
    ObjectMissing,
    PreconditionFailed,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from mst.model.manifest import ShardManifest
from mst.model.run import LatestRecord
from mst.store import Patience, objects, open_store
from mst.store.commit import commit_shard, read_latest, read_shard, shard_keys
from mst.store.fetch import fetch_run
from mst.store.find import list_runs, read_generation, read_run
from mst.store.gc import find_leftovers
from mst.store.layout import RunKeys
from mst.store.pack import Packer
from mst.store.publish import RunFacts, push_run
from mst.store.verify import verify_run
from mst.testing.faultproxy import fault_proxy
from mst.testing.servers import seaweedfs

pytestmark = pytest.mark.server
RUN = "20260102T030405Z-abc123"
KEYS = RunKeys("e", RUN)
FACTS = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as running:
        yield running


@pytest.fixture
def line(server):
    with fault_proxy(server.endpoint_url) as faults:
        yield faults


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self):
        self.now_s = 0.0

    def sleep(self, seconds):
        self.now_s += seconds

    def patience(self, patience_s):
        return Patience(patience_s, sleep=self.sleep, clock=lambda: self.now_s)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def prefix():
    return f"faults/{next(_numbers)}"


@pytest.fixture
def straight(server, prefix):
    return open_store(server.uri(prefix), environ=server.environ(), patience_s=0)


@pytest.fixture
def store(server, line, prefix, clock, straight):
    through = dataclasses.replace(server, endpoint_url=line.url)
    return open_store(through.uri(prefix), environ=server.environ(), patience=clock.patience(60))


@pytest.mark.parametrize("fault", ["500", "503", "409", "reset", "lost-reply"])
@pytest.mark.parametrize("operation", ["put", "get", "head", "list", "delete", "create", "replace"])
def test_a_passing_fault_is_not_noticed(store, straight, line, fault, operation):
    straight.put("there", b"old")
    version = straight.head("there").version
    method = {"get": "GET", "head": "HEAD", "list": "GET", "delete": "POST"}.get(operation, "PUT")
    line.once(fault, method, "", times=2)
    if operation == "put":
        store.put("there", b"new")
        assert straight.get("there") == b"new"
    elif operation == "get":
        assert store.get("there") == b"old"
    elif operation == "head":
        assert store.head("there").size == 3
    elif operation == "list":
        assert [info.key for info in store.list("")] == ["there"]
    elif operation == "delete":
        store.delete("there")
        assert straight.head("there") is None
    elif operation == "create":
        store.put_if_absent("fresh", b"attempt 1")
        assert straight.get("fresh") == b"attempt 1"
    else:
        store.replace_if_match("there", b"attempt 1", version)
        assert straight.get("there") == b"attempt 1"
    assert len([seen for seen in line.seen if seen[0] == method]) >= 3


def test_a_lost_reply_of_a_lost_race_is_a_lost_race(store, straight, line):
    straight.put_if_absent("m", b"another's")
    line.once("lost-reply", "PUT", "/m")
    with pytest.raises(PreconditionFailed):
        store.put_if_absent("m", b"mine")
    assert straight.get("m") == b"another's"


def test_a_409_is_no_answer_yet(store, straight, line):
    line.once("409", "PUT", "/m")
    store.put_if_absent("m", b"mine")
    straight.put_if_absent("n", b"another's")
    line.once("409", "PUT", "/n")
    with pytest.raises(PreconditionFailed):
        store.put_if_absent("n", b"mine")


def test_a_shard_whose_commit_reply_was_lost_is_committed(server, store, straight, line, prefix):
    manifest = ShardManifest(
        eval_name="e",
        run_id=RUN,
        dispatch="d1",
        shard=0,
        bundle_digest="a" * 64,
        author="1-00ff",
        created_at=datetime(2026, 1, 2, tzinfo=UTC),
        complete=True,
    )
    line.once("lost-reply", "PUT", "manifest.json")
    assert commit_shard(store, manifest) == "committed"
    # A worker that was restarted meanwhile, without a memory of its first try.
    impatient = dataclasses.replace(server, endpoint_url=line.url)
    again = open_store(impatient.uri(prefix), environ=server.environ(), patience_s=0)
    assert commit_shard(again, manifest) == "mine"
    assert commit_shard(again, manifest.model_copy(update={"author": "2-00ff"})) == "fenced"
    assert read_shard(straight, shard_keys(manifest)) == manifest


@pytest.mark.parametrize("size", [1000, 7_000_000])
def test_a_body_that_breaks_off_is_read_again(store, straight, line, tmp_path, size):
    data = os.urandom(size)
    straight.put("a", data)
    line.once("cut-body", "GET", "/a", times=2)
    assert store.get("a") == data
    line.once("cut-body", "GET", "/a", times=2)
    store.get_to("a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == data


@pytest.fixture
def hasty(monkeypatch, server, line, prefix):
    """Opens a store that gives a request up which got no byte for a quarter of a second."""
    monkeypatch.setattr(objects, "SILENCE_S", 0.25)
    monkeypatch.setattr(objects, "BULK_SILENCE_S", 0.25)
    through = dataclasses.replace(server, endpoint_url=line.url)
    return lambda patience: open_store(through.uri(prefix), environ=server.environ(), patience=patience)


def test_a_server_that_takes_a_request_and_says_nothing_is_asked_again(hasty, straight, line, tmp_path):
    store, data = hasty(Clock().patience(60)), os.urandom(300_000)
    straight.put("a", data)
    line.once("silent", "GET", "/a")
    assert store.get("a") == data
    line.once("stalled", "GET", "/a")
    assert store.get_to("a", tmp_path / "a").size == len(data)
    line.once("silent", "PUT", "/b")
    store.put("b", data)
    assert straight.get("b") == data
    # The server has it: whose it is decides, not who got an answer.
    line.once("silent", "PUT", "/m")
    store.put_if_absent("m", b"attempt 1")
    assert straight.get("m") == b"attempt 1"


def test_a_server_that_goes_on_saying_nothing_is_given_up_after_a_second_try(hasty, straight, line, tmp_path):
    store = hasty(Patience(0.1, draw=lambda *_: 0.01))
    straight.put("a", os.urandom(300_000))
    line.always("stalled")
    with pytest.raises(StoreUnavailable, match="tried 2 times"):
        store.get_to("a", tmp_path / "a")
    assert line.seen == [("GET", line.seen[0][1])] * 2
    assert not (tmp_path / "a").exists()


def test_a_slow_line_has_time_for_a_large_body(monkeypatch):
    """Nothing comes back before all is sent, however slowly: that is no silence."""
    monkeypatch.setattr(objects, "SILENCE_S", 0.2)
    size = objects.SMALL_BYTES + 1
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        taken = pool.submit(take_slowly, listener, size, 0.5)
        host = f"http://127.0.0.1:{listener.getsockname()[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        open_store(f"s3://bucket?endpoint_url={host}", environ=keys, patience_s=0).put("a", b"x" * size)
        assert taken.result() >= size


def take_slowly(listener, size, seconds):
    """Take a request of so many bytes, let the client wait, and answer it; how many bytes came."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(30)
        got = 0
        while got < size:
            got += len(connection.recv(1 << 20))
        threading.Event().wait(seconds)
        connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 0\r\n\r\n')
    return got


def test_a_part_that_fails_sends_the_object_again(store, straight, line, tmp_path):
    data = os.urandom(12_000_000)
    (tmp_path / "a").write_bytes(data)
    line.once("500", "PUT", "partNumber=2")
    store.put("a", tmp_path / "a")
    assert straight.get("a") == data


def test_an_hour_without_the_store_ends_in_one_clear_line(server, line, prefix):
    clock = Clock()
    through = dataclasses.replace(server, endpoint_url=line.url)
    store = open_store(through.uri(prefix), environ=server.environ(), patience=clock.patience(3600))
    line.always("reset")
    with pytest.raises(StoreUnavailable, match=r"s3://.*no answer.*tried \d+ times in 3\d\d\d s") as caught:
        store.put("a", b"x")
    assert 3500 < clock.now_s <= 3600
    assert "\n" not in str(caught.value)
    line.never()
    store.put("a", b"x")


@pytest.fixture
def small_packs(monkeypatch):
    monkeypatch.setattr("mst.store.sending.Packer", lambda: Packer(pack_bytes=1, later_bytes=1))


def test_credentials_that_expire_are_not_tried_again(store, straight, line, tmp_path, small_packs):
    for number in range(5):
        (tmp_path / f"run/{number}").parent.mkdir(exist_ok=True)
        (tmp_path / f"run/{number}").write_bytes(b"%d" % number)
    sent = itertools.count()
    line.plan = lambda method, path: "expired" if method == "PUT" and next(sent) >= 3 else None
    with pytest.raises(StoreDenied, match=r"expired \(ExpiredToken\)") as caught:
        push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=FACTS, workers=1)
    assert "\n" not in str(caught.value)
    assert list(list_runs(straight)) == []
    line.never()
    manifest = push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=FACTS)
    assert (manifest.generation, len(manifest.packs)) == (1, 5)


def test_a_run_moves_through_a_bad_line_whole(store, straight, line, tmp_path, small_packs):
    for number in range(60):
        path = tmp_path / f"run/t/{number % 5}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"content %d" % number)
    faults = itertools.cycle([None, "503", None, "reset", None, None, "lost-reply", None, "cut-body", None])
    line.plan = lambda method, path: next(faults)
    pushed = push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=FACTS)
    assert fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out") == pushed
    for number in range(60):
        assert (tmp_path / f"out/t/{number % 5}/{number}").read_bytes() == b"content %d" % number
    assert [run.generation for run in list_runs(straight)] == [1]


def test_a_flipped_bit_names_its_object(store, straight, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a").write_bytes(b"right")
    manifest = push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=FACTS)
    key = KEYS.pack(manifest.packs[0].sha256)
    straight.put(key, b"sight")
    with pytest.raises(DigestMismatch, match=key):
        fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out/run")
    assert list((tmp_path / "out").iterdir()) == []


def make_run(folder, count=20, text="content"):
    for number in range(count):
        path = folder / f"t/{number % 5}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{text} {number}".encode())
    return folder


def push(store, folder, **more):
    return push_run(store, folder, eval_name="e", run_id=RUN, facts=FACTS, **more)


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_hour_without_the_store_in_a_push_resumes(server, line, prefix, straight, tmp_path, small_packs):
    clock, run_dir = Clock(), make_run(tmp_path / "run")
    through = dataclasses.replace(server, endpoint_url=line.url)
    store = open_store(through.uri(prefix), environ=server.environ(), patience=clock.patience(3600))
    sent = itertools.count()
    line.plan = lambda method, path: "reset" if method == "PUT" and next(sent) >= 15 else None
    with pytest.raises(StoreUnavailable, match=r"tried \d+ times in 3\d\d\d s") as caught:
        push(store, run_dir, workers=1)
    assert "\n" not in str(caught.value)
    assert clock.now_s <= 3600
    assert list(list_runs(straight)) == []
    line.never()
    before = len(line.seen)
    assert push(store, run_dir).generation == 1
    # What had arrived is not sent again: 14 of 40 objects, and the store's clock, were.
    puts = [path for method, path in line.seen[before:] if method == "PUT"]
    assert len([path for path in puts if "/packs/" in path or "/indexes/" in path]) <= 40 - 14
    fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out")
    assert tree(tmp_path / "out") == tree(run_dir)


def test_a_bit_that_flips_on_the_way_is_never_kept(store, straight, line, tmp_path):
    run_dir = make_run(tmp_path / "run")
    (run_dir / "large").write_bytes(os.urandom(1_200_000))
    manifest = push(store, run_dir)
    for part in ("/packs/", "/indexes/", "/blobs/", "/manifest.1.json"):
        line.once("flipped-bit", "GET", part)
        with pytest.raises((DigestMismatch, CorruptFile), match=part.strip("/")):
            fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out/run")
        assert list((tmp_path / "out").iterdir()) == [] if (tmp_path / "out").exists() else True
    line.never()
    assert fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out/run") == manifest


@pytest.mark.parametrize("size", [300, 9_000_000])
def test_a_bit_that_flips_on_the_way_in_is_never_kept(store, straight, line, size):
    data = os.urandom(size)
    part = "partNumber=2" if size > 300 else "/a"
    line.once("flipped-request", "PUT", part, times=2)
    store.put("a", data)
    assert straight.get("a") == data
    line.once("flipped-request", "PUT", "/m", times=2)
    store.put_if_absent("m", data)
    assert straight.get("m") == data
    line.plan = lambda method, _path: "flipped-request" if method == "PUT" else None
    with pytest.raises(StoreUnavailable, match="other bytes arrived than were sent"):
        store.put("b", data[:300])
    assert straight.head("b") is None


def test_an_object_deleted_under_a_reader_is_named(store, straight, line, tmp_path, small_packs):
    manifest = push(store, make_run(tmp_path / "run"))
    gone = KEYS.pack(manifest.packs[7].sha256)

    def plan(method, path):
        if method == "GET" and "/packs/" in path:
            straight.delete(gone)

    line.plan = plan
    with pytest.raises(StoreError, match=f"{gone}.*listed but gone") as caught:
        fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out/run", workers=1)
    assert not caught.value.retryable
    assert list((tmp_path / "out").iterdir()) == []
    assert [wrong.key for wrong in verify_run(straight, KEYS)] == [gone]
    push(store, tmp_path / "run")
    assert list(verify_run(straight, KEYS)) == []


def test_a_missing_object_is_missing_also_where_the_server_says_denied(store, straight, line, tmp_path):
    """As Amazon does to whom may list, under a condition, and not look at the bucket as a whole."""
    straight.put("d/there", b"x")
    line.plan = lambda method, path: "denied" if "list-type" not in path else None
    assert store.head("d/closed.json") is None
    with pytest.raises(ObjectMissing, match="closed"):
        store.get("d/closed.json")
    for call in (lambda: store.head("d/there"), lambda: store.get("d/there")):
        with pytest.raises(StoreDenied, match="d/there"):
            call()
    line.always("denied")
    for call in (lambda: store.head("d/closed.json"), lambda: store.get("d/closed.json")):
        with pytest.raises(StoreDenied, match="closed"):
            call()


def test_a_wrong_clock_is_named_and_not_tried_again(store, line):
    line.always("skewed")
    before = len(line.seen)
    with pytest.raises(StoreDenied, match="clock is wrong"):
        store.put("a", b"x")
    assert len(line.seen) == before + 1


class Shifted:
    """A store whose clock is not this machine's; remembers what is put."""

    def __init__(self, store, seconds):
        self._store, self._shift, self.puts = store, timedelta(seconds=seconds), []

    def _shifted(self, info):
        return info and dataclasses.replace(info, modified=info.modified + self._shift)

    def head(self, key):
        return self._shifted(self._store.head(key))

    def list(self, prefix):
        return map(self._shifted, self._store.list(prefix))

    def list_folder(self, prefix):
        found = self._store.list_folder(prefix)
        return dataclasses.replace(found, objects=tuple(map(self._shifted, found.objects)))

    def put(self, key, data, **more):
        self.puts.append(key)
        self._store.put(key, data, **more)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.mark.parametrize("seconds", [-100_000, 100_000])
def test_this_machines_clock_decides_nothing(straight, tmp_path, seconds):
    """Ages go by the store's: a day ahead, or behind, pushes trust what they find and collections take nothing."""
    run_dir, store = make_run(tmp_path / "run", count=3), Shifted(straight, seconds)
    push(store, run_dir)
    straight.delete(KEYS.manifest(1))
    assert find_leftovers(store, "e", age=timedelta(days=1)) == []
    store.puts.clear()
    push(store, run_dir)
    assert store.puts == ["e/clock"]


def test_coordinators_that_push_the_same_run_at_once(server, prefix, straight, tmp_path):
    """Two versions, four pushes each, at once: a chain of generations, each whole, and `latest` is the run."""
    folders = [make_run(tmp_path / text, text=text) for text in ("one", "two")]
    at = "2026-01-02T00:00:00Z"
    latest = LatestRecord(run_id=RUN, created_at=at, collected_at=at, path=f"runs/{RUN}")

    def coordinator(number):
        store = open_store(server.uri(prefix), environ=server.environ())
        return push(store, folders[number % 2], latest=latest)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(coordinator, range(8)))
    assert list(verify_run(straight, KEYS)) == []
    highest = read_run(straight, KEYS).manifest.generation
    assert {manifest.generation for manifest in made} == set(range(1, highest + 1))
    for generation in range(2, highest + 1):
        found = read_generation(straight, KEYS, generation).manifest
        assert found.predecessor == read_generation(straight, KEYS, generation - 1).sha256
    fetch_run(straight, eval_name="e", run_id=RUN, into=tmp_path / "out")
    assert tree(tmp_path / "out") in [tree(folder) for folder in folders]
    assert read_latest(straight, "e").run_id == RUN


FULL = """
    import resource, sys
    from pathlib import Path
    from mst.errors import StoreError
    from mst.store import open_store
    from mst.store.fetch import fetch_run
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        fetch_run(open_store(sys.argv[1]), eval_name="e", run_id=sys.argv[2], into=Path(sys.argv[3]))
    except StoreError as error:
        print(error)
"""


@pytest.mark.parametrize("size", [150_000, 1_500_000])
def test_a_full_disk_in_a_fetch_is_one_clear_line_and_leaves_nothing(server, prefix, straight, tmp_path, size):
    run_dir = make_run(tmp_path / "run")
    (run_dir / "big").write_bytes(os.urandom(size))
    push(straight, run_dir)
    argv = [sys.executable, "-c", textwrap.dedent(FULL), server.uri(prefix), RUN, str(tmp_path / "out/run")]
    ended = subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=60, env=os.environ | server.environ()
    )
    assert len(ended.stdout.splitlines()) == 1, ended.stderr
    assert "big" in ended.stdout
    assert "File too large" in ended.stdout
    assert list((tmp_path / "out").iterdir()) == []
