"""Runs into a store and out again."""

import dataclasses
import stat

import pytest

from mst.errors import CorruptFile, DigestMismatch, FormatError, StoreDenied, StoreError, StoreUnavailable, UsageError
from mst.model.keys import segment
from mst.store.commit import read_latest
from mst.store.fetch import fetch_file, fetch_run, fetch_source
from mst.store.find import find_run, list_runs, read_run
from mst.store.layout import RunKeys
from mst.store.publish import push_run
from mst.store.sending import run_files
from mst.store.verify import verify_store

from .conftest import RUN, latest, make_run, sha, tree

KEYS = RunKeys("my eval", RUN)


@pytest.fixture
def push(store, facts):
    def run(run_dir, run_id=RUN, **more):
        more = {"eval_name": "my eval", "facts": facts} | more
        return push_run(store, run_dir, run_id=run_id, **more)

    return run


@pytest.fixture
def singly(monkeypatch):
    """Every file is an object of its own, as large ones are."""
    monkeypatch.setattr("mst.store.sending.SMALL_BYTES", -1)


def names(folder):
    return [entry.name for entry in folder.iterdir()]


def visible(run_dir):
    return {name: data for name, data in tree(run_dir).items() if name != ".lock"}


def test_a_run_comes_back_byte_for_byte(store, push, run_dir, tmp_path):
    pushed = push(run_dir)
    got = fetch_run(store, eval_name="my eval", run_id=RUN, into=tmp_path / "out/run")
    assert got == pushed
    assert tree(tmp_path / "out/run") == visible(run_dir)
    tool = tmp_path / "out/run/artifacts/a/case/0/tool.sh"
    assert tool.stat().st_mode & stat.S_IXUSR
    assert not (tmp_path / "out/run/run.json").stat().st_mode & stat.S_IXUSR
    assert names(tmp_path / "out") == ["run"]


def test_the_manifest_says_what_is_there(singly, store, push, run_dir):
    manifest = push(run_dir)
    assert (manifest.generation, manifest.predecessor, manifest.complete, manifest.counts) == (
        1,
        None,
        True,
        {"trials": 2},
    )
    by_path = {file.path: file for file in manifest.files}
    assert set(by_path) == set(visible(run_dir))
    for path, data in visible(run_dir).items():
        assert (by_path[path].size, by_path[path].sha256) == (len(data), sha(data))
    blobs = {info.key for info in store.list(KEYS.blobs)}
    assert blobs == {KEYS.blob(sha(data)) for data in visible(run_dir).values()}


def test_pushing_again_changes_nothing(store, push, run_dir):
    first = push(run_dir)
    before = list(store.list(""))
    assert push(run_dir) == first
    assert list(store.list("")) == before


def test_a_changed_run_is_the_next_generation(store, push, run_dir, facts, tmp_path):
    first = push(run_dir, facts=dataclasses.replace(facts, complete=False))
    first_sha = read_run(store, KEYS).sha256
    (run_dir / "run.json").write_bytes(b'{"more": 1}')
    second = push(run_dir)
    assert (second.generation, second.predecessor) == (2, first_sha)
    assert not first.complete
    assert read_run(store, KEYS).manifest == second
    fetch_run(store, eval_name="my eval", run_id=RUN, into=tmp_path / "got")
    assert (tmp_path / "got/run.json").read_bytes() == b'{"more": 1}'


def test_what_is_there_is_not_sent_again(singly, store, push, run_dir):
    push(run_dir)
    (run_dir / "run.json").write_bytes(b"changed")
    sent = []
    put = store.put
    store.put = lambda key, data, **more: (sent.append(key), put(key, data, **more))
    push(run_dir)
    assert sent == [KEYS.blob(sha(b"changed"))]


def test_a_regrade_refers_to_its_source(singly, store, push, run_dir, tmp_path):
    push(run_dir)
    source = read_run(store, KEYS)
    regrade_id = f"{RUN}.g2"
    regrade = make_run(tmp_path / "regrade", {"run.json": b"{g2}", "copy.json": b"transcript 0"})
    manifest = push(regrade, regrade_id, source=source)
    own = {info.key for info in store.list(RunKeys("my eval", regrade_id).blobs)}
    assert own == {RunKeys("my eval", regrade_id).blob(sha(b"{g2}"))}
    copied = next(file for file in manifest.files if file.path == "copy.json")
    assert copied.object == KEYS.blob(sha(b"transcript 0"))
    assert manifest.source.run_id == RUN
    assert manifest.source.manifest_sha256 == source.sha256
    assert {file.object for file in manifest.source.files} == {KEYS.blob(file.sha256) for file in source.manifest.files}

    fetch_run(store, eval_name="my eval", run_id=regrade_id, into=tmp_path / "out/g2")
    fetch_source(store, manifest, into=tmp_path / "out/source")
    assert tree(tmp_path / "out/g2") == tree(regrade)
    assert tree(tmp_path / "out/source") == visible(run_dir)
    second = make_run(tmp_path / "third", {"again.json": b"transcript 0"})
    chained = push(second, f"{RUN}.g3", source=read_run(store, RunKeys("my eval", regrade_id)))
    assert chained.files[0].object == KEYS.blob(sha(b"transcript 0"))


def test_latest_is_published_only_when_asked(store, push, run_dir):
    push(run_dir)
    assert read_latest(store, "my eval") is None
    record = latest(RUN, "2026-01-02T00:00:00Z")
    push(run_dir, latest=record)
    assert read_latest(store, "my eval") == record


def test_an_upload_that_fails_leaves_no_run(singly, store, push, run_dir):
    inner = store._inner
    put = inner.put

    def fail(key, data, **more):
        if key.endswith(sha(b"x")):
            raise StoreUnavailable("down")
        put(key, data, **more)

    inner.put = fail
    with pytest.raises(StoreUnavailable):
        push(run_dir)
    assert list(list_runs(store)) == []
    with pytest.raises(UsageError, match="has no run"):
        fetch_run(store, eval_name="my eval", run_id=RUN, into=run_dir.parent / "out")
    del inner.put
    push(run_dir)
    assert [run.run_id for run in list_runs(store)] == [RUN]


def test_a_file_that_changes_while_it_is_sent_is_noticed(singly, store, push, run_dir):
    inner = store._inner
    put = inner.put

    def change(key, data, **more):
        if data.name == "run.json":
            data.write_bytes(b"changed meanwhile")
        put(key, data, **more)

    inner.put = change
    with pytest.raises(DigestMismatch, match=r"run\.json"):
        push(run_dir)
    assert list(list_runs(store)) == []


def test_links_are_refused(push, run_dir, tmp_path):
    (run_dir / "artifacts/link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="artifacts/link"):
        push(run_dir)
    with pytest.raises(UsageError, match="not a run folder"):
        list(run_files(tmp_path / "nope"))
    with pytest.raises(UsageError, match="not a run folder"):
        push(tmp_path / "nope")


@pytest.mark.parametrize("name", ["back\\slash", "not-utf8-\udcff"])
@pytest.mark.parametrize("size", [1, 2_000_000])
def test_a_name_that_cannot_be_stored_is_named(store, push, run_dir, name, size):
    (run_dir / name).write_bytes(b"y" * size)
    with pytest.raises(UsageError, match="rename"):
        push(run_dir)
    assert list(list_runs(store)) == []


@pytest.mark.parametrize("name", ["back\\slash", "not-utf8-\udcff", "folder-\udcff/x"])
def test_a_name_that_cannot_be_stored_is_named_also_when_its_content_is_there(store, push, run_dir, name):
    (run_dir / "good").write_bytes(b"y")
    push(run_dir)
    (run_dir / name).parent.mkdir(exist_ok=True)
    (run_dir / name).write_bytes(b"y")
    with pytest.raises(UsageError, match="rename"):
        push(run_dir)
    assert [run.generation for run in list_runs(store)] == [1]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:-1], lambda data: data + b"x"]
)
def test_a_wrong_byte_names_the_object_and_leaves_nothing(singly, store, push, run_dir, tmp_path, damage):
    push(run_dir)
    key = KEYS.blob(sha(b"transcript 0"))
    store.put(key, damage(b"transcript 0"))
    with pytest.raises(DigestMismatch, match=r"blobs/[0-9a-f]{64} is corrupt.*\(transcripts/") as caught:
        fetch_run(store, eval_name="my eval", run_id=RUN, into=tmp_path / "out/run")
    assert key in str(caught.value)
    assert names(tmp_path / "out") == []


def test_a_lost_object_is_named(singly, store, push, run_dir, tmp_path):
    push(run_dir)
    store.delete(KEYS.blob(sha(b"{}")))
    with pytest.raises(StoreError, match=r"\(run\.json\) is listed but gone"):
        fetch_run(store, eval_name="my eval", run_id=RUN, into=tmp_path / "out/run")
    assert names(tmp_path / "out") == []


def test_a_folder_that_is_there_is_never_touched(store, push, run_dir, tmp_path):
    push(run_dir)
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for into in (tmp_path / "out", tmp_path / "link"):
        with pytest.raises(UsageError, match="there already"):
            fetch_run(store, eval_name="my eval", run_id=RUN, into=into)
    assert names(tmp_path / "out") == []


def test_a_manifest_that_climbs_is_refused(singly, store, push, run_dir, tmp_path):
    push(run_dir)
    data = store.get(KEYS.manifest(1))
    for path in ("../escaped", "/etc/x", "a/../../x"):
        store.put(KEYS.manifest(1), data.replace(b'"run.json"', b'"%s"' % path.encode()))
        with pytest.raises(CorruptFile, match=r"manifest\.1\.json.*plain relative path"):
            fetch_run(store, eval_name="my eval", run_id=RUN, into=tmp_path / "out/run")
    assert not (tmp_path / "out").exists()


def test_the_highest_valid_manifest_is_the_run(store, push, run_dir, caplog):
    first = push(run_dir)
    (run_dir / "run.json").write_bytes(b"second")
    push(run_dir)
    store.put(KEYS.manifest(2), store.get(KEYS.manifest(2))[:100])
    assert read_run(store, KEYS).manifest == first
    assert "manifest.2.json" in caplog.text
    (run_dir / "run.json").write_bytes(b"third")
    third = push(run_dir)
    assert (third.generation, third.predecessor) == (3, sha(store.get(KEYS.manifest(1))))


def test_a_run_with_only_broken_manifests_is_corrupt(store, push, run_dir):
    push(run_dir)
    data, manifest = store.get(KEYS.manifest(1)), read_run(store, KEYS).manifest
    store.put(KEYS.manifest(1), data[: len(data) // 2])
    with pytest.raises(CorruptFile, match=r"my%20eval/runs/.*/manifest\.1\.json") as caught:
        read_run(store, KEYS)
    assert "\n" not in str(caught.value)
    store.put(KEYS.manifest(1), manifest.model_copy(update={"generation": 7}).to_json())
    with pytest.raises(CorruptFile, match="generation 7"):
        read_run(store, KEYS)
    store.put(KEYS.manifest(1), data.replace(b"mst.manifest/v1", b"mst.manifest/v2"))
    with pytest.raises(FormatError, match="upgrade"):
        read_run(store, KEYS)


def test_a_broken_manifest_is_said_once_with_the_command_that_mends_it(store, push, run_dir, caplog):
    push(run_dir)
    store.put(KEYS.manifest(1), store.get(KEYS.manifest(1))[:100])
    with pytest.raises(CorruptFile, match=f"mst store push {RUN} --repair"):
        read_run(store, KEYS)
    assert caplog.text == ""


@pytest.mark.parametrize("before", [0, 1])
def test_a_repair_writes_over_a_manifest_that_cannot_be_read(store, push, run_dir, before, caplog):
    for number in range(before):
        (run_dir / "run.json").write_text(f"state {number}")
        push(run_dir)
    (run_dir / "run.json").write_text("last state")
    good = push(run_dir)
    store.put(KEYS.manifest(good.generation), store.get(KEYS.manifest(good.generation))[:100])
    mended = push(run_dir, repair=True)
    assert (mended.generation, mended.predecessor) == (good.generation, good.predecessor)
    caplog.clear()
    assert read_run(store, KEYS).manifest == mended
    assert caplog.text == ""
    assert push(run_dir, repair=True) == mended


def test_a_repair_writes_the_next_manifest_where_nobody_may_overwrite_one(store, push, run_dir, monkeypatch):
    push(run_dir)
    (run_dir / "run.json").write_text("last state")
    good = push(run_dir)
    store.put(KEYS.manifest(2), store.get(KEYS.manifest(2))[:100])
    inner = store._inner
    put = inner.put

    def refuse(key, data, **more):
        if "/manifest." in key:
            raise StoreDenied("the policy says no")
        put(key, data, **more)

    monkeypatch.setattr(inner, "put", refuse)
    mended = push(run_dir, repair=True)
    assert (mended.generation, mended.predecessor) == (3, good.predecessor)
    assert read_run(store, KEYS).manifest == mended
    assert push(run_dir) == mended
    assert {one.key for one in verify_store(store)} == {KEYS.manifest(2)}


def test_two_that_push_at_once_make_two_generations(store, push, run_dir, tmp_path):
    other = make_run(tmp_path / "other", {"run.json": b"other"})
    inner = store._inner
    create = inner.put_if_absent

    def late(key, data):
        if key == KEYS.manifest(1):
            del inner.put_if_absent
            push(other)
        create(key, data)

    inner.put_if_absent = late
    assert push(run_dir).generation == 2
    assert read_run(store, KEYS).manifest.predecessor == sha(store.get(KEYS.manifest(1)))


@pytest.mark.parametrize("name", ["a very long name " * 20, "\u00e4" * 100])
def test_a_corrupt_manifest_of_an_eval_whose_name_was_cut_hides_no_other_run(store, push, run_dir, caplog, name):
    later = "20260105T000000Z-00ff00"
    push(run_dir)
    push(run_dir, eval_name=name)
    push(run_dir, later, eval_name=name)
    broken = RunKeys(name, RUN).manifest(1)
    store.put(broken, store.get(broken)[:-30])
    assert {(run.eval_name, run.run_id) for run in list_runs(store)} == {("my eval", RUN), (name, RUN), (name, later)}
    assert caplog.text == ""
    store.put(RunKeys(name, later).manifest(1), b"{}")
    found = [(run.eval_name, run.run_id) for run in list_runs(store)]
    assert ("my eval", RUN) in found
    wrong = {one.key for one in verify_store(store)}
    if len(found) == 1:
        assert "no manifest can be read" in caplog.text
        assert wrong == {f"{segment(name)}/runs"}
    else:
        assert wrong == {broken, RunKeys(name, later).manifest(1)}


def test_runs_are_listed_and_found(store, push, run_dir):
    long_name = "a very long name " * 20
    push(run_dir)
    push(run_dir, f"{RUN}.g2")
    push(run_dir, "20260105T000000Z-00ff00", eval_name=long_name)
    store.put(RunKeys("my eval", f"{RUN}.g3").claim, b"only claimed")
    store.put("my%20eval/runs/not-a-run/manifest.1.json", b"{}")
    found = {(run.eval_name, run.run_id) for run in list_runs(store)}
    assert found == {("my eval", RUN), ("my eval", f"{RUN}.g2"), (long_name, "20260105T000000Z-00ff00")}
    assert find_run(store, "abc123").run_id == RUN
    assert find_run(store, "abc123.g2").run_id == f"{RUN}.g2"
    assert find_run(store, "00ff00").eval_name == long_name
    assert find_run(store, RUN, "my eval").generation == 1
    with pytest.raises(UsageError, match="no run 'ffffff'"):
        find_run(store, "ffffff")
    with pytest.raises(UsageError, match=r"no run 'abc123\.g3'"):
        find_run(store, "abc123.g3")
    push(run_dir, eval_name="another")
    with pytest.raises(UsageError, match=f"another/{RUN}, my eval/{RUN}"):
        find_run(store, "abc123")


def test_latest_is_found(store, push, run_dir):
    with pytest.raises(UsageError, match="no latest"):
        find_run(store, "latest")
    push(run_dir, latest=latest(RUN, "2026-01-02T00:00:00Z"))
    assert find_run(store, "latest").run_id == RUN
    push(run_dir, eval_name="b", latest=latest(RUN, "2026-01-02T00:00:00Z"))
    with pytest.raises(UsageError, match="several evals: b, my eval"):
        find_run(store, "latest")
    assert find_run(store, "latest", "b").eval_name == "b"


def test_one_file_is_fetched_and_checked(store, tmp_path):
    store.put("a", b"abc")
    fetch_file(store, "a", tmp_path / "a", size=3, sha256=sha(b"abc"))
    assert (tmp_path / "a").read_bytes() == b"abc"
    with pytest.raises(DigestMismatch, match="object a is corrupt: it has 3 bytes instead of 4"):
        fetch_file(store, "a", tmp_path / "b", size=4, sha256=sha(b"abc"))
    assert not (tmp_path / "b").exists()
