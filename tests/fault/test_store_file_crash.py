"""A file store whose writer is killed, whose disk is full, or that may not be written."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from mst.store.file import FileStore

# Ends the process with SIGKILL just before its n-th call that changes the disk, and says so by its exit.
KILLER = """
import os, signal, sys
left = int(sys.argv[2])
def guarded(name):
    real = getattr(os, name)
    def call(*args, **more):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*args, **more)
    setattr(os, name, call)
for name in ("open", "write", "fsync", "link", "replace", "unlink", "mkdir", "rmdir", "utime"):
    guarded(name)
from pathlib import Path
from mst.store.file import FileStore
store = FileStore(Path(sys.argv[1]))
"""

WRITES = {
    "put": ("store.put('d/e/x', b'new' * 1000)", {None, b"old", b"new" * 1000}),
    "create": ("store.put_if_absent('d/e/new', b'new' * 1000)", {None, b"new" * 1000}),
    "replace": ("store.replace_if_match('d/e/x', b'new' * 1000, store.head('d/e/x').version)", {b"old", b"new" * 1000}),
    "delete": ("store.delete('d/e/x')", {None, b"old"}),
    "first": ("store.put('other/folder/x', b'new' * 1000)", {None, b"new" * 1000}),
}
KEYS = {"put": "d/e/x", "create": "d/e/new", "replace": "d/e/x", "delete": "d/e/x", "first": "other/folder/x"}


def run(root, code, kills):
    program = textwrap.dedent(KILLER) + code
    return subprocess.run(
        [sys.executable, "-c", program, str(root), str(kills)], check=False, timeout=60, capture_output=True
    )


@pytest.mark.parametrize("write", WRITES)
def test_a_writer_killed_at_any_step_leaves_the_old_object_or_the_new(tmp_path, write):
    code, allowed = WRITES[write]
    key, seen = KEYS[write], set()
    for step in range(60):
        root = tmp_path / str(step)
        store = FileStore(root)
        store.put("d/e/x", b"old")
        ended = run(root, code, step)
        content = store.get(key) if store.head(key) else None
        assert content in allowed
        seen.add(content)
        listed = {info.key: info.size for info in store.list("")}
        assert listed == {
            name: len(store.get(name)) for name in ("d/e/x", "d/e/new", "other/folder/x") if store.head(name)
        }
        # Whatever lies about, the next writer gets through.
        store.put(key, b"after the crash")
        assert store.get(key) == b"after the crash"
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr
    else:
        pytest.fail("the writer never came to its end")
    assert step >= 3
    assert len(seen) == 2


PUSHER = """
from datetime import UTC, datetime
from mst.store import open_store
from mst.store.publish import RunFacts, push_run
push_run(open_store("file:" + sys.argv[1]), Path(sys.argv[3]), eval_name="e", run_id="20260102T030405Z-abc123",
    workers=1,
    facts=RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True))
"""


def test_a_push_killed_between_steps_leaves_the_old_run_or_the_new(tmp_path):
    from mst.store.fetch import fetch_run

    old, new = {"run.json": b"old", "same": b"s"}, {"run.json": b"new", "more/x": b"m", "same": b"s"}
    for name, files in (("old", old), ("new", new)):
        for path, data in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    def push(root, source, kills):
        program = textwrap.dedent(KILLER) + PUSHER
        argv = [sys.executable, "-c", program, str(root), str(kills), str(tmp_path / source)]
        return subprocess.run(argv, check=False, timeout=60, capture_output=True).returncode

    seen = []
    for step in range(0, 200, 4):
        root = tmp_path / f"store{step}"
        assert push(root, "old", 10**6) == 0
        code = push(root, "new", step)
        into = tmp_path / f"got{step}"
        fetch_run(FileStore(root), eval_name="e", run_id="20260102T030405Z-abc123", into=into)
        got = {path.relative_to(into).as_posix(): path.read_bytes() for path in into.rglob("*") if path.is_file()}
        assert got in (old, new)
        seen.append(got == new)
        if code == 0:
            break
        assert code == -9
    else:
        pytest.fail("the push never came to its end")
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


LIMITED = """
import resource, sys
from pathlib import Path
from mst.errors import StoreError
from mst.store.file import FileStore
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
store = FileStore(Path(sys.argv[1]))
for write in (store.put, store.put_if_absent):
    try:
        write("a/big", b"x" * 200_000)
    except StoreError as error:
        print(error)
store.put("a/small", b"y" * 50_000)
"""


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path):
    store = FileStore(tmp_path / "store")
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "store")],
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )
    lines = ended.stdout.splitlines()
    assert (ended.returncode, len(lines)) == (0, 2), ended.stderr
    for line in lines:
        assert line.startswith(f"cannot write a/big in file:{tmp_path}/store: ")
        assert line.endswith("free some space and resume")
    assert [info.key for info in store.list("")] == ["a/small"]
    assert [path.name for path in (tmp_path / "store/a").iterdir()] == ["small"]


DENIED = """
import json, os, sys
from pathlib import Path
from mst.errors import StoreDenied
from mst.store.file import FileStore
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
store = FileStore(Path(sys.argv[1]))
found = {"read": store.get("a/b").decode()}
for name, call in {
    "put": lambda: store.put("a/c", b"x"),
    "create": lambda: store.put_if_absent("n/c", b"x"),
    "replace": lambda: store.replace_if_match("a/b", b"x", store.head("a/b").version),
    "delete": lambda: store.delete("a/b"),
}.items():
    try:
        call()
    except StoreDenied as error:
        found[name] = str(error)
print(json.dumps(found))
"""


def test_a_store_that_may_not_be_written_is_one_clear_line(tmp_path):
    root = tmp_path / "store"
    FileStore(root).put("a/b", b"x")
    # Root may write anywhere, so the child becomes a user who may not; anyone else takes the right from himself.
    as_root = os.geteuid() == 0
    readers = [tmp_path, *(path for path in tmp_path.parents if path.stat().st_uid == os.geteuid() and as_root)]
    before = {path: path.stat().st_mode for path in readers}
    modes = {root: 0o555, root / "a": 0o555}
    try:
        for path in readers:
            path.chmod(before[path] | 0o055)
        for path, mode in modes.items():
            path.chmod(mode)
        ended = subprocess.run(
            [sys.executable, "-c", DENIED, str(root)],
            check=False,
            timeout=60,
            capture_output=True,
            text=True,
        )
    finally:
        for path in modes:
            path.chmod(0o755)
        for path, mode in before.items():
            path.chmod(mode)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found.pop("read") == "x"
    assert set(found) == {"put", "create", "replace", "delete"}
    for line in found.values():
        assert line.startswith("cannot ")
        assert f"file:{root}" in line
        assert "write access" in line
        assert "\n" not in line


REUSING = """
import hashlib, resource
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from mst.errors import StoreError
from mst.model.manifest import PackEntry
from mst.store import open_store
from mst.store.pack import PackIndex
from mst.store.publish import RunFacts, push_run
facts = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
store, run = open_store("memory:x"), "20260102T030405Z-abc123"
with TemporaryDirectory() as folder:
    Path(folder, "a").write_bytes(b"a")
    manifest = push_run(store, Path(folder), eval_name="e", run_id=run, facts=facts)
    index = PackIndex(manifest.packs[0].sha256, 1)
    for number in range(60_000):
        index.add(PackEntry(path=f"{number:06}", size=1, sha256=f"{number:064}", offset=0, length=1))
    data, pack = index.finish(files=60_000)
    store.put(f"e/runs/{run}/indexes/{pack.index_sha256}", data)
    key = f"e/runs/{run}/manifest.2.json"
    store.put(key, manifest.model_copy(update={"packs": [pack], "generation": 2}).to_json())
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        push_run(store, Path(folder), eval_name="e", run_id=run, facts=facts)
    except StoreError as error:
        print(error)
"""


def test_a_full_temporary_folder_is_one_clear_line():
    ended = subprocess.run([sys.executable, "-c", REUSING], check=False, timeout=60, capture_output=True, text=True)
    assert len(ended.stdout.splitlines()) == 1, ended.stderr
    assert "free some space, or set TMPDIR" in ended.stdout
