"""A disk that is full in the middle of `mst store fetch`: one line, nothing half there, and the next one works."""

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from mst.store import open_store
from mst.store.publish import RunFacts, push_run

RUN = "20260102T030405Z-abc123"
FILES = {
    "run.json": b"{}",
    "big": b"b" * 1_200_000,
    **{f"t/{number:03}": b"%d" % number * 1500 for number in range(300)},
}
FETCH = [sys.executable, "-m", "mst", "store", "fetch", RUN]


@pytest.fixture
def store(tmp_path):
    for name, data in FILES.items():
        path = tmp_path / "made" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    uri = f"file:{tmp_path}/store"
    facts = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
    push_run(open_store(uri), tmp_path / "made", eval_name="e", run_id=RUN, facts=facts)
    shutil.rmtree(tmp_path / "made")
    return uri


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_line(ended):
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (4, "")
    assert line.startswith("mst: cannot write ")
    assert line.endswith("; free some space there")


def test_a_file_that_does_not_fit(store, tmp_path):
    fetch = [*FETCH, "--results", store, "--output-dir", str(tmp_path / "out")]
    limited = ["prlimit", "--fsize=1000", *fetch]
    check_line(subprocess.run(limited, check=False, capture_output=True, text=True, timeout=120))
    assert tree(tmp_path / "out") == {}
    subprocess.run(fetch, check=True, capture_output=True, timeout=120)
    assert tree(tmp_path / "out" / "e" / "runs" / RUN) == FILES
    assert len(tree(tmp_path / "out")) == len(FILES)


SMALL_DISK = """
mount -t tmpfs -o size="$2" tmpfs "$1" || exit 99
shift 2
"$@" || echo "ended with $?"
find "$OUT" -type f
mount -o remount,size=20m "$OUT"
"$@"
find "$OUT" -type f | wc -l
cmp "$OUT/out/e/runs/$RUN/big" "$BIG" && echo same
"""


def test_a_disk_that_fills_up(store, tmp_path):
    """On a small file system of its own, which a user namespace gives without being root."""
    disk, big = tmp_path / "disk", tmp_path / "big"
    disk.mkdir()
    big.write_bytes(FILES["big"])
    namespace = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    fetch = [*FETCH, "--results", store, "--output-dir", f"{disk}/out"]
    ended = subprocess.run(
        [*namespace, "sh", "-c", SMALL_DISK, "sh", str(disk), "1m", *fetch],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OUT": str(disk), "RUN": RUN, "BIG": str(big)},
    )
    if ended.returncode == 99 or "unshare" in ended.stderr:
        pytest.skip("no file system of its own for a test here")
    assert ended.stdout.splitlines() == ["ended with 4", f"{disk}/out/e/runs/{RUN}", str(len(FILES)), "same"]
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"mst: cannot write {disk}/out/e/runs/")
    assert line.endswith("No space left on device; free some space there")
