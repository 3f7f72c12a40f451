"""What the fleet costs, beside what cannot be cheaper, on one embedded fleet in the same minutes.

hand-over   from the last write of a shard's bundle until its first unit starts (signing, queue, lease, bundle, its
            shard worker), over a bare Celery task on the same broker that starts the same shard worker on the same
            bundle, unpacked, and answers when its first unit starts. Beside it the same where workers had no moment
            without work, so that none had started a shard worker before there was a shard: the limit is for both.
unit        CPU of everything (coordinator, broker, workers, shard workers) for one more unit of an eval whose judge is
            one assertion: graded in a shard, brought to the store, fetched, and assembled. Few and many units are as
            many shards, whose start is thus taken off. The limit is for what a fleet adds: grading the same unit in
            one process is taken off. The ratio of both says most, since the machine changes less of it.
slots       a judge over HTTP that waits 100 ms, asked 16 at a time (2 workers, 8 each) and one at a time: the rate
            over 16 times the other, each while all of its slots are busy. Beside it what one more verdict costs
            the workers and the judge's server in CPU: on two processors 12.5 ms are all that 160 a second leave.

python benchmarks/fleet_overhead.py [--times 9] [--units 1000] [--verdicts 480]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from celery import Celery
from measuring import hold, least, mst, say, write_eval

from mst import __version__
from mst.fleet.app import FleetSettings, celery_settings, make_app
from mst.fleet.connect import connect
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.embedded_fleet import EmbeddedFleet
from mst.fleet.ledger_records import LedgerEvent
from mst.fleet.queues import queue_name
from mst.shards.archive import Caps, unpack
from mst.shards.split import shard_of
from mst.testing.modelscript import Call, Reply
from mst.testing.modelserver import model_server

HAND_OVER = 1.0
UNIT_MS = 2.0
SLOTS_SHARE = 0.95
SLOTS = 16
WAIT_S = 0.1
CASE = re.compile(r"item (\d+)")
FEW = 8
"""Units that fall into both shards, as many do."""
IDLE_S = 2.0
"""Without work for so long a worker has a shard worker ready."""
SHARDS = 6
"""Of a dispatch in which two workers go from one shard to the next."""
RAW_QUEUE = "raw"
RAW_DONE = "raw-done"


@dataclass(frozen=True)
class Bench:
    """A warm embedded fleet and where its evals lie."""

    place: Path
    store: Path
    fleet: EmbeddedFleet

    def environ(self) -> dict[str, str]:
        """Of coordinators."""
        return {**os.environ, **self.fleet.environ()}

    def collect(self, name: str, cases: int) -> Path:
        """An eval that is collected and not graded; returns its folder."""
        config = write_eval(self.place / name, cases)
        subprocess.run(mst("run", config, "--no-grade"), cwd=config.parent, check=True, capture_output=True)
        return config.parent

    def grade(self, folder: Path, *options: str) -> None:
        """Grade on the fleet."""
        grade = [*grading(folder), *options]
        said = subprocess.run(grade, cwd=folder, env=self.environ(), check=False, capture_output=True, text=True)
        if said.returncode:
            raise SystemExit(f"grading ended with {said.returncode}: {said.stderr[-2000:]}")

    def dispatches(self) -> list[Path]:
        """All dispatches of the store, oldest first."""
        return sorted(self.store.glob("*/dispatches/*/d1"), key=lambda path: path.stat().st_mtime_ns)


def grading(folder: Path) -> list[str | Path]:
    """The command line that grades the run collected there on the fleet."""
    run = min((folder / ".mst-results" / "overhead" / "runs").iterdir())
    return mst("grade", run, "--runner", "celery", "--fail-on", "never")


@contextmanager
def bench(place: Path) -> Iterator[Bench]:
    """A fleet of two workers, warmed up by one shard each, where the plugin of `waiting_judge.py` is installed."""
    store = place / "store"
    store.mkdir()
    install_plugin(place / "site")
    queue = queue_name("grade", mst_version=__version__)
    fleet = EmbeddedFleet(store_uri=f"file:{store}", workers=2, queue=queue, logs=place / "logs")
    try:
        yield Bench(place, store, fleet)
    finally:
        fleet.stop()


def install_plugin(site: Path) -> None:
    """Install the waiting judge where this process's children look for packages."""
    info = site / "waiting_judge-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("waiting_judge.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waiting_judge\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mst.judges]\nbench/judge/waiting = waiting_judge:WaitingJudge\n")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))


def hand_over_s(one: Bench, dispatch: Path) -> float:
    """From the bundle's last write to the first unit's start, which is the first that a shard's attempt tells."""
    [bundle] = (dispatch / "bundles").iterdir()
    return next(at for at, event in events_of(one, dispatch) if event.event == "progress") - bundle.stat().st_mtime


def next_shard_s(one: Bench, dispatch: Path) -> list[float]:
    """From one shard's commit to the first unit's start in the next one of the same worker."""
    committed: dict[str, float] = {}
    found = []
    for at, event in events_of(one, dispatch):
        if event.event == "commit":
            committed[event.worker] = at
        elif event.event == "progress" and event.worker in committed:
            found.append(at - committed.pop(event.worker))
    return found


def events_of(one: Bench, dispatch: Path) -> list[tuple[float, LedgerEvent]]:
    """What the ledger told of a dispatch, each with its time."""
    scope = f"{dispatch.parent.name}.{dispatch.name}.grade"
    events = DispatchBook(connect(one.fleet.broker.url)).events(scope)
    return [(int(event.id.partition("-")[0]) / 1000, event) for event in events]


def raw_s(one: Bench, times: int) -> list[float]:
    """As often a bare task that starts a shard worker, until its answer is here."""
    client = connect(one.fleet.broker.url)
    app = make_app(one.fleet.broker.url)
    bundle = one.place / "raw" / "bundle"
    if not bundle.exists():
        [archive] = (one.dispatches()[0] / "bundles").iterdir()
        unpack(archive, bundle, Caps())
    worker = subprocess.Popen([sys.executable, __file__, "raw-worker", one.fleet.broker.url, str(bundle)])
    try:
        found = []
        for _ in range(times + 1):
            began = time.time()
            app.send_task("raw.start", queue=RAW_QUEUE)
            answers = (client.blpop([RAW_DONE], timeout=2) for _ in range(30))
            if not any(answers):
                raise SystemExit("the bare task did not end")
            found.append(time.time() - began)
        return found[1:]  # the first one waits for its worker
    finally:
        worker.terminate()
        worker.wait()


def raw_worker(broker_url: str, bundle: str) -> int:
    """A Celery worker with the settings of ours and a task that only starts a shard worker."""
    app = Celery("raw")
    app.conf.update(celery_settings(broker_url, FleetSettings()))
    client = connect(broker_url)

    def start() -> None:
        with tempfile.TemporaryDirectory(dir=Path(bundle).parent) as results:
            argv = mst("grade-shard", "--bundle", bundle, "--results", results, "--digest", "none")
            child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert child.stdout is not None
            while json.loads(child.stdout.readline())["type"] != "started":
                pass
            client.rpush(RAW_DONE, "1")
            child.communicate()

    app.task(start, name="raw.start", shared=False)
    with Path(bundle).with_name("log").open("w") as stream:
        os.dup2(stream.fileno(), 2)
        app.worker_main(["worker", "--pool=threads", "--concurrency=1", f"--queues={RAW_QUEUE}", "--loglevel=WARNING",
                         "--without-gossip", "--without-mingle"])  # fmt: skip
    return 0


def hand_over(one: Bench, times: int) -> bool:
    """Hand-overs and bare tasks by turns, so that both meet the same machine."""
    folder, busy = one.collect("hand-over", 1), one.collect("busy", 8 * SHARDS)
    one.grade(folder)
    ours, following, raw = [], [], []
    for _ in range(3):
        before = len(one.dispatches())
        for _ in range(times // 3):
            threading.Event().wait(IDLE_S)
            one.grade(folder)
        ours += [hand_over_s(one, dispatch) for dispatch in one.dispatches()[before:]]
        one.grade(busy, "--runner-option", f"shards={SHARDS}")
        following += next_shard_s(one, one.dispatches()[-1])
        raw += raw_s(one, times // 3)
    say("hand-over", ours_s=_sorted(ours), next_shard_s=_sorted(following), raw_s=_sorted(raw))
    kept = [
        hold(f"{what} over a bare task that starts one, medians", _median(found) / _median(raw), HAND_OVER, "times")
        for what, found in (("hand-over of a shard", ours), ("a worker's next shard", following))
    ]
    return all(kept)


def cpu_of_fleet(one: Bench) -> float:
    """Seconds of processor that workers, their ended children, and the broker have used."""
    broker = connect(one.fleet.broker.url).info("server")["process_id"]
    pids = [*one.fleet.worker_pids(), broker]
    used = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(times.user + times.system + times.children_user + times.children_system for times in used)


def unit(one: Bench, units: int, times: int) -> bool:
    """CPU of everything for one more unit."""
    costs, here_alone = {}, {}
    for count in (FEW, units):
        folder = one.collect(f"unit-{count}", count)
        found = []
        for _ in range(times):
            before = cpu_of_fleet(one)
            coordinator = least(["env", *_assigned(one), *grading(folder)], times=1, cwd=folder).cpu_s
            found.append((coordinator, cpu_of_fleet(one) - before))
        costs[count] = min(found, key=sum)
        alone = mst("grade", grading(folder)[4], "--fail-on", "never")
        here_alone[count] = least(alone, times=times, cwd=folder).cpu_s
    (start_here, start_there), (here, there) = costs[FEW], costs[units]
    figures = [(here - start_here) / (units - FEW) * 1000, (there - start_there) / (units - FEW) * 1000]
    local_ms = (here_alone[units] - here_alone[FEW]) / (units - FEW) * 1000
    say("unit", units=units, coordinator_ms=round(figures[0], 3), workers_and_broker_ms=round(figures[1], 3),
        together_ms=round(sum(figures), 3), graded_in_one_process_ms=round(local_ms, 3),
        ratio=round(sum(figures) / local_ms, 2))  # fmt: skip
    return hold("CPU that a fleet adds to a unit", sum(figures) - local_ms, UNIT_MS, "ms")


@dataclass(frozen=True)
class Waiting:
    """A judge that waits: how an eval names it, and which cases it was asked about, and when."""

    judge: dict[str, Any]
    asked: Callable[[], list[tuple[str, float]]]


@contextmanager
def plugin_judge(folder: Path) -> Iterator[Waiting]:
    """See `waiting_judge.py`; its package is on the path of everything that is started."""
    log = folder / "asked"

    def asked() -> list[tuple[str, float]]:
        lines = (line.split() for line in log.read_text().splitlines())
        return [(case, float(at)) for case, at in lines]

    yield Waiting({"bench/judge/waiting": str(log)}, asked)


@contextmanager
def rubric_judge(_folder: Path) -> Iterator[Waiting]:
    """A rubric; its model is a server of this process."""
    found: list[tuple[str, float]] = []

    def answer(call: Call) -> Reply:
        case = CASE.search(call.prompt)
        assert case is not None
        found.append((f"c{case[1]}", time.monotonic()))
        return Reply(value={"score": 1.0, "reasoning": "fine"}, stall_s=WAIT_S)

    with model_server(answer) as server:
        yield Waiting({"rubric": {"rubric": "fine?", "model": "m", "base_url": server.openai_url}}, lambda: found)


def slots(one: Bench, verdicts: int) -> bool:
    """Rates with judges that wait, as those saw them who were asked."""
    rate_share(one, verdicts, "rubric", rubric_judge)
    share = rate_share(one, verdicts, "plugin", plugin_judge)
    kept = share >= SLOTS_SHARE
    print(f"{'ok  ' if kept else 'OVER'}  {SLOTS} slots over {SLOTS} times one: {share:.3g} (at least {SLOTS_SHARE})")
    return kept


def rate_share(
    one: Bench, verdicts: int, name: str, waiting: Callable[[Path], AbstractContextManager[Waiting]]
) -> float:
    """The rate with all slots over that with one, times their number; 1 is the most."""
    rates, spent = {}, {}
    for at_once in (1, SLOTS):
        shards = min(at_once, 2)
        count = verdicts if at_once > 1 else max(20, verdicts // SLOTS)
        folder = one.place / f"{name}-{at_once}"
        config = write_eval(folder, count)
        with waiting(folder) as one_judge:
            written = json.loads(config.read_text())
            written |= {"concurrency": max(1, at_once // 2), "plugins": ["bench"]}
            written |= {"judges": [{"name": "slow", **one_judge.judge}]}
            config.write_text(json.dumps(written))
            subprocess.run(mst("run", config, "--no-grade"), cwd=folder, check=True, capture_output=True)
            before = cpu_of_fleet(one) + time.process_time()
            one.grade(folder, "--runner-option", f"shards={shards}")
            spent[at_once] = (cpu_of_fleet(one) + time.process_time() - before, shards, count)
            arrivals: dict[int, list[float]] = {shard: [] for shard in range(shards)}
            for case, at in one_judge.asked():
                arrivals[shard_of(case, shards)].append(at)
        rates[at_once] = steady_rate(list(arrivals.values()), at_once // shards)
    share = rates[SLOTS] / (SLOTS * rates[1])
    say(f"slots, {name}", one_a_second=round(rates[1], 2), sixteen_a_second=round(rates[SLOTS], 2),
        share=round(share, 3), cpu_ms_a_verdict=round(verdict_ms(spent[1], spent[SLOTS]), 2))  # fmt: skip
    return share


def steady_rate(arrivals: Sequence[Sequence[float]], each: int) -> float:
    """Calls a second over all shards while every slot is busy: not while one has yet to begin or has nothing left.

    Args:
        arrivals: by shard, when its calls came.
        each: slots of a shard. Only whole rounds of them are counted, since they often come together.
    """
    begin = max(times[each - 1] for times in arrivals)
    end = min(times[-1] for times in arrivals)
    found = 0.0
    for times in arrivals:
        inside = [at for at in times if begin <= at <= end]
        whole = (len(inside) - 1) // each * each
        found += whole / (inside[whole] - inside[0])
    return found


def verdict_ms(few: tuple[float, int, int], many: tuple[float, int, int]) -> float:
    """CPU of one more verdict, from two gradings as seconds, shards and verdicts. Starting a shard costs alike."""
    (few_s, few_shards, few_count), (many_s, many_shards, many_count) = few, many
    ratio = many_shards / few_shards
    return (many_s - ratio * few_s) / (many_count - ratio * few_count) * 1000


def _assigned(one: Bench) -> list[str]:
    return [f"{name}={value}" for name, value in one.fleet.environ().items()]


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _sorted(values: Sequence[float]) -> list[float]:
    return sorted(round(value, 3) for value in values)


def main() -> int:
    """Measure, print, and fail when a limit is passed."""
    if sys.argv[1:2] == ["raw-worker"]:
        return raw_worker(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--verdicts", type=int, default=480)
    parser.add_argument("--only", choices=["hand-over", "unit", "slots"], help="only this one")
    asked = parser.parse_args()
    parts = {
        "hand-over": lambda one: hand_over(one, asked.times),
        "unit": lambda one: unit(one, asked.units, 3),
        "slots": lambda one: slots(one, asked.verdicts),
    }
    with tempfile.TemporaryDirectory(prefix="mst-bench-") as name, bench(Path(name)) as one:
        kept = [part(one) for key, part in parts.items() if asked.only in (None, key)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    raise SystemExit(main())
