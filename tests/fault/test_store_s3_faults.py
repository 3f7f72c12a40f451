"""A real S3 server behind a line that breaks: every fault has one defined outcome."""

import dataclasses
import itertools
import os
from datetime import UTC, datetime

import pytest

from mst.errors import DigestMismatch, PreconditionFailed, StoreDenied, StoreUnavailable
from mst.model.manifest import ShardManifest
from mst.store import Patience, open_store
from mst.store.commit import commit_shard, read_shard, shard_keys
from mst.store.fetch import fetch_run
from mst.store.find import list_runs
from mst.store.layout import RunKeys
from mst.store.publish import RunFacts, push_run
from mst.testing.faultproxy import fault_proxy
from mst.testing.servers import seaweedfs

pytestmark = pytest.mark.server
RUN = "20260102T030405Z-abc123"
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


def test_credentials_that_expire_are_not_tried_again(store, straight, line, tmp_path):
    for number in range(5):
        (tmp_path / f"run/{number}").parent.mkdir(exist_ok=True)
        (tmp_path / f"run/{number}").write_bytes(b"%d" % number)
    facts = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
    sent = itertools.count()
    line.plan = lambda method, path: "expired" if method == "PUT" and next(sent) >= 3 else None
    with pytest.raises(StoreDenied, match=r"expired \(ExpiredToken\)") as caught:
        push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=facts, workers=1)
    assert "\n" not in str(caught.value)
    assert list(list_runs(straight)) == []
    line.never()
    manifest = push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=facts)
    assert (manifest.generation, len(manifest.files)) == (1, 5)


def test_a_run_moves_through_a_bad_line_whole(store, straight, line, tmp_path):
    for number in range(60):
        path = tmp_path / f"run/t/{number % 5}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"content %d" % number)
    faults = itertools.cycle([None, "503", None, "reset", None, None, "lost-reply", None, "cut-body", None])
    line.plan = lambda method, path: next(faults)
    facts = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
    pushed = push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=facts)
    assert fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out") == pushed
    for number in range(60):
        assert (tmp_path / f"out/t/{number % 5}/{number}").read_bytes() == b"content %d" % number
    assert [run.generation for run in list_runs(straight)] == [1]


def test_a_flipped_bit_names_its_object(store, straight, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a").write_bytes(b"right")
    facts = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
    manifest = push_run(store, tmp_path / "run", eval_name="e", run_id=RUN, facts=facts)
    key = RunKeys("e", RUN).blob(manifest.files[0].sha256)
    straight.put(key, b"sight")
    with pytest.raises(DigestMismatch, match=key):
        fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out/run")
    assert list((tmp_path / "out").iterdir()) == []
