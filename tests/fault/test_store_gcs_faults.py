"""Google's storage API behind a line that breaks, and wrong settings."""

import dataclasses
import json
import os
from datetime import UTC, datetime

import pytest

from mst.errors import ObjectMissing, PreconditionFailed, StoreDenied, StoreError, StoreUnavailable, UsageError
from mst.store import Patience, gcs, open_store, redacted
from mst.store.fetch import fetch_run
from mst.store.find import list_runs
from mst.store.publish import RunFacts, push_run
from mst.testing.faultproxy import fault_proxy
from mst.testing.servers import fake_gcs

pytestmark = pytest.mark.server
RUN = "20260102T030405Z-abc123"
FAULTS = {2: "503", 6: "reset", 11: "lost-reply"}
FACTS = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with fake_gcs(tmp_path_factory.mktemp("gcs")) as running:
        yield running


@pytest.fixture
def line(server):
    with fault_proxy(server.endpoint_url) as faults:
        yield faults


@pytest.fixture
def prefix(request):
    return f"faults/{request.node.name.translate(str.maketrans('[]', '--'))}"


@pytest.fixture
def straight(server, prefix):
    return open_store(server.uri(prefix), environ={}, patience_s=0)


def through(server, line, prefix, patience_s=60):
    now = [0.0]
    patience = Patience(patience_s, sleep=lambda s: now.__setitem__(0, now[0] + s), clock=lambda: now[0])
    return open_store(dataclasses.replace(server, endpoint_url=line.url).uri(prefix), environ={}, patience=patience)


@pytest.fixture
def store(server, line, prefix):
    return through(server, line, prefix)


@pytest.mark.parametrize("fault", ["500", "503", "409", "reset", "lost-reply"])
def test_a_passing_fault_is_not_noticed(store, straight, line, fault):
    line.once(fault, "POST", "/o?", times=2)
    store.put("a", b"x")
    line.once(fault, "POST", "/o?", times=2)
    store.put_if_absent("b", b"mine")
    version = store.head("b").version
    line.once(fault, "POST", "/o?", times=2)
    store.replace_if_match("b", b"mine too", version)
    line.once(fault, "GET", "/o", times=2)
    assert store.get("b") == b"mine too"
    line.once(fault, "GET", "/o", times=2)
    assert {info.key for info in store.list("")} == {"a", "b"}
    line.once(fault, "DELETE", "/o/", times=2)
    store.delete("a")
    assert straight.head("a") is None


def test_a_lost_reply_of_a_lost_race_is_a_lost_race(store, straight, line):
    straight.put("a", b"theirs")
    line.once("lost-reply", "POST", "/o?")
    with pytest.raises(PreconditionFailed):
        store.put_if_absent("a", b"mine")
    assert straight.get("a") == b"theirs"


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_body_that_breaks_off_is_read_again(store, straight, line, tmp_path, size):
    data = os.urandom(size)
    straight.put("a", data)
    line.once("cut-body", "GET", "alt=media")
    assert store.get("a") == data
    line.once("cut-body", "GET", "alt=media")
    assert store.get_range("a", 1, size - 1) == data[1:]
    line.once("cut-body", "GET", "alt=media")
    store.get_to("a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == data


@pytest.fixture
def hasty(monkeypatch):
    """A request is given up that got no byte for a quarter of a second."""
    monkeypatch.setitem(gcs._ONCE, "timeout", (10, 0.25))


def test_a_server_that_takes_a_request_and_says_nothing_is_asked_again(hasty, store, straight, line):
    straight.put("a", b"x" * 1000)
    line.once("silent", "GET", "/a")
    assert store.get("a") == b"x" * 1000
    line.once("stalled", "GET", "alt=media")
    assert store.get("a") == b"x" * 1000
    line.once("silent", "POST", "/o?")
    store.put_if_absent("m", b"attempt 1")
    assert straight.get("m") == b"attempt 1"


def test_a_server_that_goes_on_saying_nothing_is_given_up_after_a_second_try(hasty, server, line, prefix):
    at = dataclasses.replace(server, endpoint_url=line.url).uri(prefix)
    store = open_store(at, environ={}, patience=Patience(0.1, draw=lambda *_: 0.01))
    line.always("silent")
    with pytest.raises(StoreUnavailable, match="tried 2 times"):
        store.get("a")
    assert len(line.seen) == 2


def test_an_hour_without_the_store_ends_in_one_clear_line(server, line, prefix):
    store = through(server, line, prefix, patience_s=3600)
    line.always("reset")
    with pytest.raises(StoreUnavailable, match=r"gs://.*tried \d+ times in 3\d\d\d s") as caught:
        store.put("a", b"x")
    assert "\n" not in str(caught.value)


def test_a_refusal_is_not_tried_again(store, line):
    line.always("denied")
    before = len(line.seen)
    with pytest.raises(StoreDenied, match="GOOGLE_APPLICATION_CREDENTIALS") as caught:
        store.put("a", b"x")
    assert [method for method, _ in line.seen[before:] if method == "POST"] == ["POST"]
    assert "\n" not in str(caught.value)


def test_a_run_moves_through_a_bad_line_whole(store, straight, line, tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    for number in range(40):
        (run_dir / f"{number}").write_bytes(os.urandom(1000 + number))
    (run_dir / "large").write_bytes(os.urandom(9_000_000))
    count = iter(range(10**6))
    line.plan = lambda method, path: FAULTS.get(next(count) % 13)
    pushed = push_run(store, run_dir, eval_name="e", run_id=RUN, facts=FACTS)
    assert fetch_run(store, eval_name="e", run_id=RUN, into=tmp_path / "out") == pushed
    for path in run_dir.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    assert [run.generation for run in list_runs(straight)] == [1]


def test_a_bucket_that_does_not_exist_is_named(server):
    store = open_store(dataclasses.replace(server, bucket="no-such-bucket").uri("x"), environ={}, patience_s=0)
    for call in (lambda: store.get("a"), lambda: store.put("a", b"x"), lambda: list(store.list(""))):
        with pytest.raises(StoreError, match="no-such-bucket") as caught:
            call()
        assert "\n" not in str(caught.value)
        assert not caught.value.retryable


def test_a_server_that_is_not_there_is_unavailable():
    store = open_store("gs://bucket/x?endpoint_url=http://127.0.0.1:9", environ={}, patience_s=0)
    with pytest.raises(StoreUnavailable, match="gs://bucket/x"):
        store.get("a")


def test_no_credentials_are_one_clear_line(tmp_path):
    (tmp_path / "key.json").write_text(json.dumps({"type": "nonsense", "private_key": "very-secret"}))
    store = open_store(
        "gs://bucket/x", environ={"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "key.json")}, patience_s=0
    )
    with pytest.raises(StoreDenied, match="GOOGLE_APPLICATION_CREDENTIALS") as caught:
        store.get("a")
    assert "\n" not in str(caught.value)
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "match"),
    [
        ("gs:bucket/x", "gs://BUCKET/PREFIX"),
        ("gs://user@bucket/x", "gs://BUCKET/PREFIX"),
        ("gs://bucket/x?token=abc", "no setting 'token'"),
        ("gs://bucket/x?endpoint_url=ftp://h", "endpoint_url"),
        ("gs://bucket/x?endpoint_url=http://u:p@h", "without credentials"),
    ],
)
def test_a_wrong_uri_is_refused(uri, match):
    with pytest.raises(UsageError, match=match) as caught:
        open_store(uri, environ={})
    assert "u:p" not in str(caught.value)


def test_every_write_names_the_key_of_the_key_service(server, line, prefix):
    """Of uploads only the first request of each names it."""
    uri = dataclasses.replace(server, endpoint_url=line.url).uri(prefix)
    store = open_store(f"{uri}&kms_key=projects/p/key", environ={}, patience_s=0)
    store.put("a", b"1")
    store.put_if_absent("b", b"1")
    store.replace_if_match("b", b"2", store.head("b").version)
    store.put("large", bytes(9_000_000))
    begins = [path for method, path in line.seen if method == "POST" and "upload_id" not in path]
    assert ["kmsKeyName=projects%2Fp%2Fkey" in path for path in begins] == [True] * 4


def test_a_uri_is_shown_without_what_is_unknown():
    assert redacted("gs://bucket/x?project=p&kms_key=k") == "gs://bucket/x?project=p&kms_key=***"


def test_a_missing_object_is_missing(straight):
    with pytest.raises(ObjectMissing):
        straight.get("nope")
