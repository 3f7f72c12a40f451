"""A team's day with a result store, on the real command line: runs are graded where they are, checked and cleared."""

import json
import os
import socket
from datetime import timedelta

import pytest

from mst import __version__
from mst.model.base import digest_bytes
from mst.model.manifest import RunManifest
from mst.store import open_store
from mst.store.find import list_runs, read_run
from mst.store.layout import RunKeys
from mst.store.listing import Listing
from mst.testing.commandline import call_mst
from mst.testing.stored_run import write_echo_eval

OLD = timedelta(days=30).total_seconds()


@pytest.fixture
def mst(capsys):
    return lambda *arguments: call_mst(capsys, *arguments)


@pytest.fixture
def uri(tmp_path):
    return f"file:{tmp_path / 'store'}"


@pytest.fixture
def store(uri):
    return open_store(uri)


@pytest.fixture
def ran(mst, tmp_path, uri):
    """A run that was collected and graded here and pushed; its ID."""
    config = write_echo_eval(tmp_path / "eval")
    said = mst("run", config, "--output-dir", tmp_path / "here", "--results", uri)
    assert said.code == 0, said.err
    (path,) = (tmp_path / "here").glob("*/runs/*")
    return path.name


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).as_posix().startswith(".")
    }


def run_folder(root, run_id):
    (found,) = root.glob(f"*/runs/{run_id}")
    return found


def test_a_run_is_pushed_with_its_manifest_and_becomes_latest(mst, ran, uri, tmp_path):
    said = mst("store", "ls", "--results", uri, "--json")
    (row,) = json.loads(said.out)["runs"]
    assert (row["runId"], row["complete"], row["latest"], row["generation"]) == (ran, True, True, 1)
    assert row["files"] == len(files(run_folder(tmp_path / "here", ran)))
    assert ran in mst("store", "ls", "echoes", "--results", uri).out


def test_a_run_is_shown_and_graded_where_it_is(mst, ran, uri, store, tmp_path):
    there = tmp_path / "there"
    said = mst("show", "latest", "--output-dir", there, "--results", uri)
    assert said.code == 0, said.err
    assert files(run_folder(there, ran)) == files(run_folder(tmp_path / "here", ran))
    said = mst("grade", "latest", "--output-dir", there, "--results", uri)
    assert said.code == 0, said.err
    regrade = read_run(store, RunKeys("echoes", f"{ran}.g2")).manifest
    assert regrade.source.run_id == ran
    assert {pack.object for pack in regrade.source.packs} == set(
        Listing.of(read_run(store, RunKeys("echoes", ran)).manifest).objects()
    ) - {pack.index_object for pack in regrade.source.packs}
    third = tmp_path / "third"
    said = mst("show", f"{ran[-6:]}.g2", "--output-dir", third, "--results", uri)
    assert said.code == 0, said.err
    for run_id in (ran, f"{ran}.g2"):
        assert files(run_folder(third, run_id)) == files(run_folder(there, run_id))


def test_numbers_of_regrades_are_claimed_in_the_store_and_here(mst, ran, uri, tmp_path):
    for root in ("one", "two"):
        assert mst("grade", ran, "--output-dir", tmp_path / root, "--results", uri).code == 0
    assert mst("grade", ran, "--output-dir", tmp_path / "here").code == 0
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    assert {run.run_id for run in list_runs(open_store(uri))} == {ran, f"{ran}.g2", f"{ran}.g3", f"{ran}.g4"}


def test_a_copy_that_is_not_what_the_store_holds_is_not_graded(mst, ran, uri, tmp_path):
    record = run_folder(tmp_path / "here", ran) / "run.json"
    record.write_bytes(record.read_bytes() + b"\n")
    said = mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri)
    assert said.code == 2
    assert "mst store push" in said.err
    assert mst("store", "push", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0


def test_a_store_that_cannot_be_written_is_found_before_anything_runs_or_is_asked(mst, tmp_path, monkeypatch):
    monkeypatch.setattr("mst.cli.running.probed", lambda *_: pytest.fail("an agent was asked"))
    (tmp_path / "file").write_bytes(b"")
    config = write_echo_eval(tmp_path / "eval")
    said = mst("run", config, "--output-dir", tmp_path / "here", "--results", f"file:{tmp_path / 'file'}")
    assert said.code == 4
    assert [line.startswith("mst: cannot write") for line in said.error_lines] == [True]
    assert not (tmp_path / "here").exists()


def test_a_wrong_store_is_found_before_anything_runs_or_is_asked(mst, tmp_path, monkeypatch):
    monkeypatch.setattr("mst.cli.running.probed", lambda *_: pytest.fail("an agent was asked"))
    config = write_echo_eval(tmp_path / "eval")
    for more in ([], ["--dry-run"]):
        said = mst("run", config, "--output-dir", tmp_path / "here", "--results", "s3:bucket/prefix", *more)
        assert (said.code, len(said.error_lines), "s3://BUCKET/PREFIX" in said.err) == (2, 1, True)
    assert not (tmp_path / "here").exists()


def test_a_dry_run_writes_nothing_into_the_store(mst, tmp_path, uri):
    config = write_echo_eval(tmp_path / "eval")
    said = mst("run", config, "--output-dir", tmp_path / "here", "--results", uri, "--dry-run")
    assert (said.code, (tmp_path / "store").exists()) == (0, False), said.err


def test_a_grading_that_goes_on_finds_a_wrong_store_before_anything_is_asked(mst, ran, tmp_path, uri):
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    regrade = run_folder(tmp_path / "here", f"{ran}.g2")
    (tmp_path / "file").write_bytes(b"")
    said = mst("grade", regrade, "--resume", "--results", f"file:{tmp_path / 'file'}")
    assert (said.code, [line.startswith("mst: cannot write") for line in said.error_lines]) == (4, [True])


def test_a_push_that_fails_at_the_end_says_how_to_push_later(mst, ran, tmp_path, uri, store, monkeypatch):
    store.put("echoes/latest.json", b"{")
    here = tmp_path / "here"
    said = mst("grade", ran, "--output-dir", here, "--results", uri)
    assert (said.code, "latest.json" in said.err, list(here.glob("*/runs/*.g*"))) == (4, True, [])
    monkeypatch.setattr("mst.cli.grading.check_results", lambda *_: None)
    said = mst("grade", ran, "--output-dir", here, "--results", uri)
    assert (said.code, f"mst store push {run_folder(here, f'{ran}.g2')}" in said.err) == (4, True)


def test_a_store_is_named_or_asked_for(mst, tmp_path, monkeypatch, ran, uri):
    monkeypatch.delenv("MST_STORE", raising=False)
    said = mst("store", "ls")
    assert (said.code, "MST_STORE" in said.err) == (2, True)
    monkeypatch.setenv("MST_STORE", uri)
    assert ran in mst("store", "ls").out


def test_a_run_is_fetched_whole_with_its_source(mst, ran, uri, tmp_path):
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    said = mst("store", "fetch", f"{ran}.g2", "--output-dir", tmp_path / "there", "--results", uri)
    assert said.code == 0, said.err
    for run_id in (ran, f"{ran}.g2"):
        assert files(run_folder(tmp_path / "there", run_id)) == files(run_folder(tmp_path / "here", run_id))


def test_verify_finds_every_flipped_bit_and_a_repair_mends_it(mst, ran, uri, store, tmp_path):
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    assert mst("store", "verify", "--results", uri).code == 0
    keys = [info.key for info in store.list("echoes") if not info.key.endswith("clock")]
    assert len(keys) >= 8
    for key in keys:
        good = store.get(key)
        for at in {0, len(good) // 2, len(good) - 1}:
            wrong = bytearray(good)
            wrong[at] ^= 4
            store.put(key, bytes(wrong))
            said = mst("store", "verify", "--results", uri, "--json")
            assert said.code == 4, key
            assert key in {one["key"] for one in json.loads(said.out)["wrong"]}
        store.put(key, good)
    pack = next(key for key in keys if "/packs/" in key and f"{ran}/" in key)
    store.put(pack, b"x" + store.get(pack)[1:])
    said = mst("store", "verify", ran, "--results", uri)
    assert (said.code, pack in said.out, "run.json" in said.out or "files:" in said.out) == (4, True, True)
    said = mst("store", "push", ran, "--repair", "--output-dir", tmp_path / "here", "--results", uri)
    assert said.code == 0, said.err
    assert mst("store", "verify", "--results", uri).code == 0


def test_a_broken_manifest_hides_no_other_run_and_a_repair_mends_it(mst, ran, uri, store, tmp_path):
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    good = store.get(key := f"echoes/runs/{ran}/manifest.1.json")
    store.put(key, good[:200])
    said = mst("store", "ls", "--results", uri)
    assert said.code == 4
    assert f"{ran}.g2 " in said.out
    assert said.err.count(key) == 1
    assert said.err.startswith("mst: ")
    listed = json.loads(mst("store", "ls", "--results", uri, "--json").out)
    assert [row["runId"] for row in listed["runs"]] == [f"{ran}.g2"]
    assert key in listed["wrong"][0]
    said = mst("store", "push", f"{ran}.g2", "--repair", "--output-dir", tmp_path / "here", "--results", uri)
    assert said.code == 0, said.err
    assert mst("store", "verify", "--results", uri).code == 0


def test_a_generation_that_is_passed_over_is_said_once(mst, ran, uri, store, tmp_path):
    folder = run_folder(tmp_path / "here", ran)
    (folder / "run.json").write_bytes((folder / "run.json").read_bytes() + b"\n")
    assert mst("store", "push", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    store.put(RunKeys("echoes", ran).manifest(2), b"{")
    said = mst("store", "fetch", ran, "--output-dir", tmp_path / "there", "--results", uri)
    assert (said.code, len(said.error_lines)) == (0, 1)
    assert said.err.startswith("mst: passed over a manifest: ")


def test_runs_are_listed_when_the_pointer_to_the_latest_is_broken(mst, ran, uri, store):
    store.put("echoes/latest.json", b"{")
    said = mst("store", "ls", "--results", uri)
    assert (said.code, ran in said.out, said.err.count("latest.json")) == (4, True, 1)


def test_verify_names_what_is_gone(mst, ran, uri, store):
    for key in [info.key for info in store.list("echoes/runs") if "/packs/" in info.key]:
        store.delete(key)
    said = mst("store", "verify", "latest", "--results", uri)
    assert said.code == 4
    assert "is gone" in said.out


def age(tmp_path, *keys, seconds=OLD):
    for key in keys:
        path = tmp_path / "store" / key
        at = path.stat().st_mtime - seconds
        os.utime(path, (at, at))


def test_gc_removes_what_nothing_lists_and_only_that(mst, ran, uri, store, tmp_path):
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    listed = {info.key for info in store.list("echoes")}
    orphans = {f"echoes/runs/{ran}/{kind}/{number * 64}" for kind in ("blobs", "packs", "indexes") for number in "01"}
    for key in orphans:
        store.put(key, b"leftover")
    age(tmp_path, *(info.key for info in store.list("echoes")))
    young = f"echoes/runs/{ran}/blobs/{digest_bytes(b'being pushed')}"
    store.put(young, b"being pushed")
    said = mst("store", "gc", "--dry-run", "--results", uri, "--json")
    assert {one["key"] for one in json.loads(said.out)["removed"]} == orphans
    assert {info.key for info in store.list("echoes")} == listed | orphans | {young, "echoes/clock"}
    assert mst("store", "gc", "--results", uri).code == 0
    assert {info.key for info in store.list("echoes")} == listed | {young, "echoes/clock"}
    assert mst("store", "verify", "--results", uri).code == 0


def test_gc_keeps_what_only_a_regrade_lists(mst, ran, uri, store, tmp_path):
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    keys = RunKeys("echoes", ran)
    store.delete(keys.manifest(1))
    age(tmp_path, *(info.key for info in store.list("echoes")))
    assert mst("store", "gc", "--results", uri).code == 0
    said = mst("store", "fetch", f"{ran}.g2", "--output-dir", tmp_path / "there", "--results", uri)
    assert said.code == 0, said.err


def test_gc_keeps_what_was_replaced_lately(mst, ran, uri, store, tmp_path):
    folder = run_folder(tmp_path / "here", ran)
    first = read_run(store, RunKeys("echoes", ran)).manifest
    for path in folder.rglob("*.json"):
        path.write_bytes(path.read_bytes() + b"\n")
    age(tmp_path, *(info.key for info in store.list("echoes")))
    assert mst("store", "push", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    assert "0 objects" in mst("store", "gc", "--results", uri).err
    age(tmp_path, RunKeys("echoes", ran).manifest(2))
    said = mst("store", "gc", "--results", uri, "--json")
    assert {one["key"] for one in json.loads(said.out)["removed"]} <= set(Listing.of(first).objects())
    assert mst("store", "verify", "--results", uri).code == 0


def test_gc_does_nothing_when_it_cannot_know(mst, ran, uri, store, tmp_path):
    key = RunKeys("echoes", ran).manifest(1)
    store.put(key, store.get(key)[:-5])
    age(tmp_path, *(info.key for info in store.list("echoes")))
    before = {info.key for info in store.list("echoes")}
    said = mst("store", "gc", "--results", uri)
    assert said.code != 0
    assert key in said.err
    assert {info.key for info in store.list("echoes")} == before | {"echoes/clock"}


def test_gc_takes_dispatches_only_when_they_are_over(mst, ran, uri, store, tmp_path):
    run = RunKeys("echoes", ran)
    made = {}
    for name in ("d1", "d2", "d3"):
        dispatch = run.dispatch(name)
        shard = dispatch.shard(0)
        made[name] = {
            dispatch.bundle("0" * 64),
            dispatch.blob("1" * 64),
            shard.manifest,
            shard.unit("1-a", "u.json"),
            f"{shard.attempt('1-a')}/packs/{'2' * 64}",
        }
        for key in made[name] | {dispatch.record}:
            store.put(key, b"{}")
    for name in ("d1", "d2"):
        store.put(run.dispatch(name).closed, b"{}")
    age(tmp_path, *(info.key for info in store.list(run.dispatches)))
    store.put(run.dispatch("d2").closed, b"{}")

    def removed(*more):
        said = mst("store", "gc", "--dry-run", "--results", uri, "--json", *more)
        return [one["key"] for one in json.loads(said.out)["removed"]]

    assert set(removed()) == made["d1"]
    assert set(removed("--abandon")) == made["d1"] | made["d3"]
    assert removed()[0] == run.dispatch("d1").shard(0).manifest
    assert mst("store", "gc", "--results", uri).code == 0
    assert {run.dispatch("d1").record, run.dispatch("d1").closed} <= {info.key for info in store.list("echoes")}


def test_an_object_that_is_written_again_meanwhile_stays(uri, store, ran, tmp_path):
    from mst.store.gc import find_leftovers, remove

    key = f"echoes/runs/{ran}/blobs/{'0' * 64}"
    store.put(key, b"leftover")
    age(tmp_path, key)
    (leftover,) = find_leftovers(store, "echoes")
    store.put(key, b"leftover")
    assert not remove(store, leftover)
    assert store.get(key) == b"leftover"


def test_gc_goes_on_with_other_evals(mst, ran, uri, store, tmp_path):
    other = write_echo_eval(tmp_path / "eval", name="awry")
    assert mst("run", other, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    (broken,) = (info.key for info in store.list("awry/runs") if info.key.endswith("manifest.1.json"))
    store.put(broken, b"{")
    orphans = [f"{name}/runs/{ran}/blobs/{'0' * 64}" for name in ("awry", "echoes")]
    for key in orphans:
        store.put(key, b"leftover")
    age(tmp_path, *(info.key for info in store.list("")))
    said = mst("store", "gc", "--results", uri, "--json")
    document = json.loads(said.out)
    assert (said.code, [one["key"] for one in document["removed"]]) == (4, orphans[1:])
    assert [broken in line and "nothing of awry was removed" in line for line in document["wrong"]] == [True]


def test_gc_of_what_is_not_there_writes_nothing(mst, ran, uri, store, tmp_path):
    before = {info.key for info in store.list("")}
    said = mst("store", "gc", "--eval", "typo", "--results", uri)
    assert (said.code, len(said.error_lines), "no eval 'typo'" in said.err) == (2, 1, True)
    store.put("check/writable", b"")
    assert mst("store", "gc", "--results", uri).code == 0
    assert {info.key for info in store.list("")} == before | {"check/writable", "echoes/clock"}
    elsewhere = tmp_path / "elsewhere"
    assert mst("store", "gc", "--results", f"file:{elsewhere}").code == 0
    assert not elsewhere.exists()


def test_verify_of_no_run_is_a_mistake(mst, uri):
    said = mst("store", "verify", "--results", uri)
    assert (said.code, len(said.error_lines), "nothing to verify" in said.err) == (2, 1, True)


def test_an_object_of_several_runs_is_read_and_named_once(mst, ran, uri, store, tmp_path):
    for _ in range(2):
        assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    pack = next(info.key for info in store.list(f"echoes/runs/{ran}/packs"))
    store.put(pack, store.get(pack)[:-1])
    said = mst("store", "verify", "--results", uri)
    assert (said.code, [line.partition(": ")[0] for line in said.out.splitlines()]) == (4, [pack])
    assert "1 wrong" in said.err
    assert "3 runs checked" in said.err


def test_a_run_of_a_newer_mst_hides_no_other(mst, ran, uri, store, tmp_path):
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    key = RunKeys("echoes", f"{ran}.g2").manifest(1)
    store.put(key, store.get(key).replace(b"mst.manifest/v1", b"mst.manifest/v9"))
    said = mst("store", "ls", "--results", uri)
    assert (said.code, ran in said.out, "upgrade mst" in said.err) == (4, True, True)


def test_what_was_pushed_and_fetched_is_told_as_json(mst, ran, uri, tmp_path):
    said = mst("store", "push", ran, "--output-dir", tmp_path / "here", "--results", uri, "--json")
    assert json.loads(said.out) == {"store": uri, "eval": "echoes", "runId": ran, "generation": 1}
    said = mst("store", "fetch", ran, "--output-dir", tmp_path / "there", "--results", uri, "--json")
    path = str(run_folder(tmp_path / "there", ran))
    assert json.loads(said.out) == {"store": uri, "runId": ran, "path": path}


def test_leftovers_younger_than_a_day_are_never_removed(mst, ran, uri):
    assert mst("store", "gc", "--age-days", "0.5", "--results", uri).code == 2


def test_a_manifest_reads_back_and_says_what_is_in_the_run(store, ran):
    key = RunKeys("echoes", ran).manifest(1)
    manifest = RunManifest.from_json(store.get(key), key)
    assert manifest.run_id == ran
    assert {name: manifest.counts[name] for name in ("planned", "scored", "missing")} == {
        "planned": 8, "scored": 8, "missing": 0,
    }  # fmt: skip
    assert manifest.machine == {"id": socket.gethostname()}
    assert manifest.versions["mst"] == __version__


def test_an_empty_store_says_that_it_is(mst, uri):
    said = mst("store", "ls", "--results", uri)
    assert (said.code, said.out) == (0, "")
    assert "no run in file:" in said.err


def test_the_sizes_of_runs_add_up_to_what_the_store_holds(mst, ran, uri, store, tmp_path):
    """A regrade uses its source's packs again; counted twice, nobody could tell what a store costs."""
    assert mst("grade", ran, "--output-dir", tmp_path / "here", "--results", uri).code == 0
    rows = json.loads(mst("store", "ls", "--results", uri, "--json").out)["runs"]
    held = [info.size for info in store.list("echoes/runs") if "/packs/" in info.key or "/blobs/" in info.key]
    assert sum(row["bytes"] for row in rows) == sum(held)


def collected_later(mst, tmp_path, root):
    """A run of another eval that was collected a year after all others, and not graded; its ID."""
    config = write_echo_eval(tmp_path / "other", name="other")
    assert mst("run", config, "--no-grade", "--output-dir", root).code == 0
    (folder,) = root.glob("other/runs/*")
    later = f"{int(folder.name[:4]) + 1}{folder.name[4:]}"
    record = json.loads((folder / "run.json").read_bytes())
    record |= {"runId": later, "createdAt": f"{int(later[:4])}{record['createdAt'][4:]}"}
    (folder / "run.json").write_text(json.dumps(record))
    folder.rename(folder.with_name(later))
    return later


def test_what_was_collected_here_since_is_graded_and_said(mst, ran, uri, store, tmp_path):
    here = tmp_path / "here"
    later = collected_later(mst, tmp_path, here)
    said = mst("grade", "latest", "--output-dir", here, "--results", uri)
    assert said.code == 0, said.err
    assert f"latest is {later} here, not the older {ran}" in said.err
    assert {run.run_id for run in list_runs(store, "other")} == {later, f"{later}.g2"}


def test_what_was_collected_elsewhere_since_is_graded_where_it_is(mst, ran, uri, store, tmp_path):
    later = collected_later(mst, tmp_path, tmp_path / "elsewhere")
    assert mst("store", "push", later, "--output-dir", tmp_path / "elsewhere", "--results", uri).code == 0
    said = mst("grade", "latest", "--output-dir", tmp_path / "here", "--results", uri)
    assert said.code == 0, said.err
    assert f"latest is {later} in {uri}, not the older {ran} here" in said.err
    assert {run.run_id for run in list_runs(store, "other")} == {later, f"{later}.g2"}


def test_the_stores_latest_is_graded_when_here_is_nothing_newer(mst, ran, uri, store, tmp_path):
    for root in ("here", "there"):
        said = mst("grade", "latest", "--output-dir", tmp_path / root, "--results", uri)
        assert (said.code, "mst: latest is" in said.err) == (0, False), said.err
    assert [run.run_id for run in list_runs(store)] == [ran, f"{ran}.g2", f"{ran}.g3"]


def test_gc_takes_what_was_put_for_a_dispatch_that_was_never_sent(mst, ran, uri, store, tmp_path):
    """Its record was taken back, so it is neither open nor closed; where a worker has begun, the record was lost."""
    never, lost = (RunKeys("echoes", ran).dispatch(name) for name in ("d1", "d2"))
    bundles = [keys.bundle("0" * 64) for keys in (never, lost)]
    for key in (*bundles, never.plan, lost.shard(0).unit("1-a", "u.json")):
        store.put(key, b"{}")
    assert "0 objects" in mst("store", "gc", "--results", uri).err
    age(tmp_path, *(info.key for info in store.list("echoes/dispatches")))
    said = mst("store", "gc", "--results", uri, "--json")
    removed = {one["key"]: one["why"] for one in json.loads(said.out)["removed"]}
    assert removed == {bundles[0]: f"dispatch d1 of {ran} was never sent"}
