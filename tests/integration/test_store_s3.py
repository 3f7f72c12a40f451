"""Runs on a real S3 server, and what users see who set it up wrong."""

import dataclasses
from datetime import UTC, datetime

import pytest

from mst.errors import StoreDenied, StoreError, StoreUnavailable
from mst.model.run import LatestRecord
from mst.store import check_writable, open_store
from mst.store.commit import claim_regrade, read_latest
from mst.store.fetch import fetch_run, fetch_source
from mst.store.find import find_run, list_runs, read_run
from mst.store.layout import RunKeys
from mst.store.publish import RunFacts, push_run
from mst.testing.servers import seaweedfs

pytestmark = pytest.mark.server
RUN = "20260102T030405Z-abc123"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as running:
        yield running


def opened(server, prefix="runs", **more):
    return open_store(server.uri(prefix), environ=server.environ(), **more)


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_and_its_regrade_go_and_come_back(server, tmp_path):
    store = opened(server)
    run_dir = tmp_path / "run"
    (run_dir / "artifacts/a/c~1/0").mkdir(parents=True)
    (run_dir / "run.json").write_bytes(b"{}")
    (run_dir / "empty").write_bytes(b"")
    (run_dir / "artifacts/a/c~1/0/big").write_bytes(bytes(range(256)) * 40_000)
    for number in range(200):
        (run_dir / f"artifacts/a/c~1/0/{number}").write_bytes(b"artifact %d" % number)
    facts = RunFacts(created_at=NOW, complete=True, versions={"mst": "0.1.0"})
    record = LatestRecord(run_id=RUN, created_at="2026-01-02T03:04:05Z", path=f"runs/{RUN}")
    push_run(store, run_dir, eval_name="my eval", run_id=RUN, facts=facts, latest=record)

    elsewhere = opened(server)
    assert find_run(elsewhere, "latest").run_id == RUN
    assert read_latest(elsewhere, "my eval") == record
    fetch_run(elsewhere, eval_name="my eval", run_id=RUN, into=tmp_path / "got")
    assert tree(tmp_path / "got") == tree(run_dir)

    regrade_id = claim_regrade(elsewhere, eval_name="my eval", source=RUN, claimant="me", now=NOW)
    assert [run.run_id for run in list_runs(store)] == [RUN]
    (tmp_path / "regrade").mkdir()
    (tmp_path / "regrade/run.json").write_bytes(b"{g2}")
    source = read_run(elsewhere, RunKeys("my eval", RUN))
    push_run(elsewhere, tmp_path / "regrade", eval_name="my eval", run_id=regrade_id, facts=facts, source=source)
    manifest = fetch_run(store, eval_name="my eval", run_id=regrade_id, into=tmp_path / "got2")
    fetch_source(store, manifest, into=tmp_path / "got-source")
    assert tree(tmp_path / "got2") == {"run.json": b"{g2}"}
    assert tree(tmp_path / "got-source") == tree(run_dir)
    assert [run.run_id for run in list_runs(store)] == [RUN, regrade_id]


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


def test_a_wrong_secret_is_one_clear_line_without_it(server):
    environ = server.environ() | {"AWS_SECRET_ACCESS_KEY": "wrong-and-secret"}
    store = open_store(server.uri("x"), environ=environ)
    for call in (
        lambda: check_writable(store, "e"),
        lambda: store.get("a"),
        lambda: store.head("a"),
        lambda: list(store.list("")),
        lambda: store.list_folder(""),
        lambda: store.delete("a"),
        lambda: store.put_if_absent("a", b"x"),
    ):
        with pytest.raises(StoreDenied, match=f"s3://{server.bucket}/x: access denied") as caught:
            call()
        assert "AWS_ACCESS_KEY_ID" in one_line(caught)
        assert "wrong-and-secret" not in str(caught.value)
        assert server.key not in str(caught.value)


def test_a_store_that_may_only_be_read_refuses_writes(server):
    opened(server, "shared").put("a", b"x")
    reader = open_store(server.uri("shared"), environ=server.reader_environ())
    assert reader.get("a") == b"x"
    assert [info.key for info in reader.list("")] == ["a"]
    for call in (
        lambda: check_writable(reader, "e"),
        lambda: reader.put_if_absent("b", b"x"),
        lambda: reader.replace_if_match("a", b"y", reader.head("a").version),
        lambda: reader.delete("a"),
    ):
        with pytest.raises(StoreDenied, match=r"access denied \(AccessDenied\)") as caught:
            call()
        one_line(caught)
    assert opened(server, "shared").get("a") == b"x"


def test_a_bucket_that_does_not_exist_is_named(server):
    store = opened(dataclasses.replace(server, bucket="no-such-bucket"))
    for call in (lambda: store.get("a"), lambda: list(store.list(""))):
        with pytest.raises(StoreError, match="no-such-bucket/runs: the bucket does not exist") as caught:
            call()
        assert not isinstance(caught.value, StoreUnavailable)
        one_line(caught)


def test_a_server_that_is_not_there_is_named(server):
    store = opened(dataclasses.replace(server, endpoint_url="http://127.0.0.1:9"), patience_s=0.3)
    with pytest.raises(StoreUnavailable, match=r"s3://.*no answer from http:.*:9 \(.+tried \d times") as caught:
        store.get("a")
    one_line(caught)


def test_a_key_in_another_prefix_is_out_of_reach(server):
    opened(server, "one").put("a", b"1")
    assert opened(server, "two").head("a") is None
    assert opened(server, "on").head("e/a") is None
    assert list(opened(server, "on").list("")) == []
    assert opened(server, "").get("one/a") == b"1"


def test_tls_where_none_is_spoken_is_said_at_once(server):
    store = opened(dataclasses.replace(server, endpoint_url=server.endpoint_url.replace("http:", "https:")))
    with pytest.raises(StoreError, match=r"no answer from https://.* in TLS.*http://\?") as caught:
        store.get("a")
    assert not isinstance(caught.value, StoreUnavailable)
    one_line(caught)
