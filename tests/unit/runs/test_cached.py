import os
import time

import pytest

from mst.errors import DigestMismatch, UsageError
from mst.runs.cached import KEPT_S, cache_root, forget_unused, is_needed, read_stored
from mst.runs.stored import push_folder, read_uri
from mst.store.memory import MemoryStore
from mst.testing.stored_run import collect_run, grade_here, write_echo_eval


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def store():
    return MemoryStore("cached")


@pytest.fixture
def regrade(tmp_path, store):
    """A regrade that was pushed with its source."""
    source = collect_run(write_echo_eval(tmp_path / "eval", cases=2), tmp_path / "results")
    folder = grade_here(source, tmp_path / "scratch").folder
    push_folder(store, folder)
    return folder


def paths(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_only_what_is_needed_comes(regrade, store, cache):
    numbers = read_stored(store, "latest", "numbers", cache)
    assert paths(numbers.path) == ["inputs/cases.jsonl", "results.json", "run.json", "summary.json"]
    assert numbers.summary() == regrade.summary()
    assert [case.id for case in numbers.case_results()] == [case.id for case in regrade.case_results()]


def test_a_report_finds_the_transcripts_of_a_regrades_source(regrade, store, cache):
    folder = read_stored(store, regrade.run_id, "report", cache)
    source = folder.source
    assert source.path.is_relative_to(cache)
    assert len([path for path in paths(source.path) if path.startswith("transcripts/")]) == 4
    assert not any("artifacts/" in path or "inputs/files" in path for path in paths(source.path))


def test_what_is_there_is_not_fetched_again(regrade, store, cache):
    folder = read_stored(store, "latest", "numbers", cache)
    for info in list(store.list("echoes/runs")):
        if "/packs/" in info.key or "/blobs/" in info.key:
            store.delete(info.key)
    assert read_stored(store, "latest", "numbers", cache).path == folder.path


def test_a_run_that_changed_is_fetched_anew(regrade, store, cache):
    before = read_stored(store, "latest", "numbers", cache)
    record = regrade.run()
    regrade.write_run(record.model_copy(update={"looks": 3}))
    push_folder(store, regrade)
    after = read_stored(store, "latest", "numbers", cache)
    assert (before.run().looks, after.run().looks) == (None, 3)


def test_a_wrong_byte_leaves_nothing(regrade, store, cache):
    for key in [info.key for info in store.list(f"echoes/runs/{regrade.run_id}") if "/packs/" in info.key]:
        data = bytearray(store.get(key))
        for at in range(0, len(data), 50):
            data[at] ^= 1
        store.put(key, bytes(data))
    with pytest.raises(DigestMismatch):
        read_stored(store, "latest", "numbers", cache)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_run_that_the_store_lacks_is_a_usage_error(regrade, store, cache):
    with pytest.raises(UsageError, match="ffffff"):
        read_stored(store, "ffffff", "numbers", cache)


def test_what_nobody_used_for_a_week_goes_and_a_use_renews_it(regrade, store, cache):
    folder = read_stored(store, "latest", "numbers", cache)
    home = folder.path.parent.parent
    old = time.time() - KEPT_S - 60
    os.utime(home, (old, old))
    read_stored(store, "latest", "numbers", cache)
    forget_unused(cache, time.time())
    assert home.is_dir()
    forget_unused(cache, time.time() + KEPT_S + 60)
    assert not home.exists()


def test_the_cache_is_where_the_system_wants_it(tmp_path):
    assert cache_root({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "mst" / "runs"
    assert cache_root({}).parts[-3:] == (".cache", "mst", "runs")


@pytest.mark.parametrize(
    ("path", "needs"),
    [
        ("run.json", {"numbers", "page", "report"}),
        ("results.json", {"numbers", "report"}),
        ("report/data/ab/0.js", {"page"}),
        ("transcripts/a/b/0.json", {"report"}),
        ("scores/pairwise.x/b/c.json", {"numbers", "report"}),
        ("scores/checks/b/c/0.json", set()),
        ("artifacts/a/b/0/big.bin", set()),
        ("inputs/files/00", set()),
    ],
)
def test_files_are_needed_for_what_reads_them(path, needs):
    assert {need for need in ("numbers", "page", "report") if is_needed(path, need)} == needs


RUN = "20261007T182504Z-7f3c2a"


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("s3://bucket/evals", ("s3://bucket/evals", "latest", None)),
        (f"s3://bucket/evals/hello/runs/{RUN}", ("s3://bucket/evals", RUN, "hello")),
        (f"s3://b/e/a%20b/runs/{RUN}.g2/?region=eu", ("s3://b/e?region=eu", f"{RUN}.g2", "a b")),
        (f"file:st/hello/runs/{RUN}", ("file:st", RUN, "hello")),
        ("gs://bucket/hello/runs/nonsense", ("gs://bucket/hello/runs/nonsense", "latest", None)),
    ],
)
def test_a_uri_names_a_run_or_the_latest_of_its_store(uri, found):
    named = read_uri(uri)
    assert (named.store, named.run, named.eval_name) == found


@pytest.mark.parametrize("ref", ["latest", RUN, f"{RUN}.g2", "7f3c2a", "results/hello/runs/x", "/tmp/x"])
def test_other_references_are_no_uris(ref):
    assert read_uri(ref) is None


def test_a_folder_with_a_colon_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ab:c").mkdir()
    assert read_uri("ab:c") is None
