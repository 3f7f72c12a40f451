"""Which store a URI opens, and what of it may be shown."""

import pytest

from mst.errors import RefusedError, StoreError, StoreUnavailable, UsageError
from mst.store import check_writable, key_of, object_uri, open_store, redacted
from mst.store.file import FileStore


def test_a_file_uri_names_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store("file:results").uri == f"file:{tmp_path}/results"
    assert open_store(f"file://{tmp_path}/x").uri == f"file:{tmp_path}/x"
    assert open_store("file:~/x", environ={"HOME": "/home/me"}).uri == "file:/home/me/x"
    assert list(tmp_path.iterdir()) == []


def test_a_memory_store_is_the_same_under_its_name():
    open_store("memory:shared").put("a", b"x")
    assert open_store("memory:shared").get("a") == b"x"
    assert open_store("memory:other").head("a") is None


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("results", "file:results"),
        ("./a:b", "not a store URI"),
        ("", "not a store URI"),
        ("file:", "needs a folder"),
        ("file://host/x", "must be mounted"),
        ("ftp://x/y", r"there are .*file:.*s3:"),
        ("s3://", "s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/x", "keys into the environment"),
        ("s3://bucket/x?acces_key=abc", "no setting 'acces_key'"),
        ("s3://bucket/x?addressing=odd", "path or virtual"),
        ("s3://bucket/x?region=a&region=b", "region is given twice"),
        ("s3://bucket/x?region=", "region has no value"),
        ("s3://bucket/x#1", "s3://BUCKET/PREFIX"),
        ("s3://[bucket/x", "s3://BUCKET/PREFIX"),
        ("s3://bucket/a//b", "s3://bucket/a//b: 'a//b' is not a key"),
        ("s3://bucket/a/../b", "not a key"),
        ("gs://bucket/a b", "not a key"),
        ("gs://bucket/a?endpoint_url=http://host:port", "endpoint_url is http"),
        ("s3://bucket/x?endpoint_url=http://[host", "endpoint_url is http"),
        ("s3://bucket/x?endpoint_url=localhost:9000", "endpoint_url is http"),
        ("s3://bucket/x?endpoint_url=http://me:secret@localhost:9000", "without credentials"),
    ],
)
def test_a_wrong_uri_says_what_is_right(uri, message):
    with pytest.raises(UsageError, match=message) as caught:
        open_store(uri, environ={})
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_may_be_shown_holds_no_secret():
    assert redacted("s3://me:pw@bucket/a?region=x&token=abc") == "s3://bucket/a?region=x&token=***"
    shown = redacted("s3://b/a?endpoint_url=http://me:pw@host:1/")
    assert "pw" not in shown
    assert "host:1" in shown
    assert redacted("file:/a/b") == "file:/a/b"
    assert redacted("s3://[broken") == "s3:***"


def test_an_s3_store_shows_no_settings():
    store = open_store("s3://bucket/a/b/?region=eu-west-1", environ={"AWS_SECRET_ACCESS_KEY": "pw"})
    assert store.uri == "s3://bucket/a/b"
    assert "pw" not in repr(store)


def test_an_object_has_a_uri_and_only_its_own_store_takes_it(tmp_path):
    for store in (
        FileStore(tmp_path),
        open_store("s3://bucket/pre", environ={}),
        open_store("s3://bucket", environ={}),
    ):
        uri = object_uri(store, "a%20b/c.json")
        assert key_of(store, uri) == "a%20b/c.json"
    assert object_uri(open_store("s3://bucket/pre?region=x", environ={}), "a") == "s3://bucket/pre/a"


@pytest.mark.parametrize(
    "uri", ["s3://bucket/prefix/a", "s3://other/pre/a", "s3://bucket/pre/../x", "s3://bucket/pre/", "file:/a"]
)
def test_an_object_elsewhere_is_refused(uri):
    with pytest.raises(RefusedError):
        key_of(open_store("s3://bucket/pre", environ={}), uri)


def test_plugins_add_kinds(monkeypatch):
    class Point:
        name = "custom"

        def load(self):
            return lambda uri, environ: FileStore(environ["ROOT"] / uri.partition(":")[2])

    monkeypatch.setattr("mst.store.uri.entry_points", lambda group: [Point()] if group == "mst.stores" else [])
    from pathlib import Path

    assert open_store("custom:x", environ={"ROOT": Path("/r")}).uri == "file:/r/x"
    with pytest.raises(UsageError, match="custom:"):
        open_store("other:x")


def test_a_store_that_cannot_be_written_is_found_early(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(StoreError, match="taken") as caught:
        check_writable(open_store(f"file:{tmp_path}/taken"), "eval")
    assert "\n" not in str(caught.value)
    check_writable(open_store(f"file:{tmp_path}/free"), "eval")


def test_a_store_that_stays_away_is_told_once_however_many_calls_wait(caplog, monkeypatch):
    monkeypatch.setattr("mst.store.wrap.NOTICE_S", 0)
    told = []
    environ = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    store = open_store(
        "s3://bucket/x?endpoint_url=http://127.0.0.1:9", patience_s=1.5, environ=environ, notice=told.append
    )
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.get("k")
    assert len(told) == 1
    assert "s3://bucket/x" in told[0]
    assert caplog.text == ""
    with pytest.raises(StoreUnavailable):
        open_store("s3://bucket/x?endpoint_url=http://127.0.0.1:9", patience_s=1.5, environ=environ).get("k")
    assert "trying again" in caplog.text
