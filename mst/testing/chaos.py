"""A grading on a real fleet while parts of it are killed, cut, wiped and lied to, by a seed; and what came of it.

What counts afterwards: every unit has a result, the result is that of one quiet process, and no attempt asked for what
the store had before it began. A unit whose worker is killed before that is paid twice; nobody can help it. Nor can
anybody where two attempts are at work at once, because a worker was frozen or the broker forgot who has the shard: each
stops at the next look at its lease, and what it has in hand until then the other one cannot know of.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import redis

from mst.errors import MstError
from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.testing.equality import differences
from mst.testing.fleet import GRADE_QUEUE, Bed
from mst.testing.ledger import broken_rules

QUEUE_KEY = f"mst:{GRADE_QUEUE}"
_EXCHANGE = 2
_AT_FDCWD = -100
EXIT_PARTIAL = 3
_PACE = threading.Event()
QUIET_S = 240.0
"""How long the grading may take once nothing is broken any more."""


@dataclass
class Report:
    """What happened and what came of it.

    Attributes:
        faults: how often each was done.
        coordinators: how often one ended with which exit code.
        said: the last lines of those that ended otherwise than well or killed.
        attempts: of all shards, as the store has them.
        calls: how often the judge was asked.
        again: units that were asked more than once, because their worker died before they were durable.
        overtaken: units that another attempt made durable while the one that asked for them was under way.
        paid_twice: units that were durable before the attempt that asked for them began. Must be empty.
        lost: planned units without a verdict. Must be empty.
        different: differences from the grading in one process. Must be empty.
    """

    seed: int
    shards: int = 0
    units: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    coordinators: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    dispatches: int = 0
    attempts: int = 0
    calls: int = 0
    again: int = 0
    overtaken: list[str] = field(default_factory=list)
    paid_twice: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    broken_rules: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For a benchmark's record."""
        return {**vars(self), "faults": dict(self.faults), "coordinators": dict(self.coordinators)}


class Chaos:
    """One run of faults.

    Args:
        bed: a fleet with a `file:` store, and the quiz.
        here: its grading in one process.
        shards: to ask for; those without cases are not sent.
        faults_s: how long faults go on; after that the grading is brought to its end in peace.
        every_s: mean time between faults.
    """

    def __init__(
        self, bed: Bed, here: RunFolder, *, seed: int, shards: int, workers: int, faults_s: float, every_s: float
    ) -> None:
        self.report = Report(seed=seed)
        self._bed = bed
        self._here = here
        self._random = random.Random(seed)
        self._shards = shards
        self._workers = workers
        self._faults_s = faults_s
        self._every_s = every_s
        self._before = len(regrades_of(bed.source))
        self._current: subprocess.Popen[str] | None = None
        self._owes = False
        self._messages: list[bytes] = []
        self._late: list[tuple[float, bytes]] = []
        self._store = Path(bed.fleet.store_uri.removeprefix("file:"))
        self._raw: Any = redis.Redis.from_url(bed.fleet.broker.url.replace("redis+socket", "unix"), socket_timeout=5)

    def run(self) -> Report:
        """Grade under faults, then in peace, then look at what came of it."""
        began = time.monotonic()
        self._bed.ready(self._workers)
        self._bed.quiz.ask("slow")
        try:
            # how long the workers took to come up is no part of the faults' time
            self._go(time.monotonic())
        finally:
            if self._current is not None and self._current.poll() is None:
                _kill_group(self._current)
        self.report.seconds = round(time.monotonic() - began, 1)
        self._judge()
        self._raw.close()
        return self.report

    def _go(self, began: float) -> None:
        coordinator: subprocess.Popen[str] | None = self._coordinate()
        next_at = began + self._pause_s()
        while coordinator is not None and time.monotonic() < began + self._faults_s:
            _PACE.wait(0.1)
            coordinator = self._keep_up(coordinator)
            if coordinator is None:
                break
            self._look_after()
            if time.monotonic() >= next_at:
                self._break_something(coordinator)
                next_at = time.monotonic() + self._pause_s()
        self._end_in_peace(coordinator)

    def _pause_s(self) -> float:
        return self._random.expovariate(1 / self._every_s)

    def _regrade(self) -> RunFolder | None:
        found = regrades_of(self._bed.source)
        return found[-1] if len(found) > self._before else None

    def _coordinate(self) -> subprocess.Popen[str]:
        """A coordinator: the first one grades, those after it attach; after an end with errors one asks again."""
        regrade = self._regrade()
        if regrade is None:
            self._current = self._bed.start("--runner-option", "wait=true", shards=self._shards)
        elif self._owes:
            # a judge that was killed itself leaves a grading error, which nobody asks again unasked
            options = self._bed.arguments("--resume", "--runner-option", "wait=true", shards=self._shards)
            self._current = self._bed.begin("grade", regrade.path, *options[2:])
        else:
            self._current = self._bed.begin("attach", regrade.path)
        return self._current

    def _keep_up(self, coordinator: subprocess.Popen[str]) -> subprocess.Popen[str] | None:
        """A new coordinator in place of one that ended; None when the grading is done."""
        if coordinator.poll() is None:
            return coordinator
        _, said = coordinator.communicate()
        self.report.coordinators[f"exit {coordinator.returncode}"] += 1
        if coordinator.returncode not in (0, 1, -signal.SIGKILL):
            self.report.said += [f"exit {coordinator.returncode}: {line}" for line in said.splitlines()[-3:]]
        regrade = self._regrade()
        if coordinator.returncode in (0, 1) and regrade is not None and regrade.run().phases.grade == "complete":
            return None
        self._owes = coordinator.returncode == EXIT_PARTIAL
        return self._coordinate()

    def _look_after(self) -> None:
        """Keep copies of messages, deliver what was held back, and replace workers that ended."""
        with suppress(redis.RedisError):
            self._messages += self._raw.lrange(QUEUE_KEY, 0, 3)
            del self._messages[:-200]
            for at, message in [one for one in self._late if one[0] <= time.monotonic()]:
                self._raw.lpush(QUEUE_KEY, message)
                self._late.remove((at, message))
        workers = self._bed.fleet.workers
        for name, worker in list(workers.items()):
            if worker.process.poll() is not None:
                del workers[name]
        while len(workers) < self._workers:
            self._bed.fleet.start(wait=False)

    def _break_something(self, coordinator: subprocess.Popen[str]) -> None:
        # a coordinator needs a while to send a thousand shards: killed or cancelled too often it never would
        faults: dict[str, tuple[int, Callable[[], bool]]] = {
            "child killed": (12, self._kill_child),
            "worker killed": (6, self._kill_worker),
            "worker told to end": (2, self._drain_worker),
            "worker frozen": (2, self._freeze_worker),
            "coordinator killed": (2, lambda: _kill_group(coordinator)),
            "sockets dropped": (6, self._drop_sockets),
            "broker restarted": (2, self._restart_broker),
            "broker frozen": (2, self._freeze_broker),
            "broker wiped": (2, self._wipe_broker),
            "store away": (2, self._hide_store),
            "message doubled": (6, self._double),
            "message delayed": (6, self._delay),
            "message replayed": (6, self._replay),
            "cancelled": (1, self._cancel),
        }
        names = list(faults)
        [name] = self._random.choices(names, [faults[one][0] for one in names])
        with suppress(redis.RedisError, psutil.NoSuchProcess, ProcessLookupError, MstError):
            if faults[name][1]():
                self.report.faults[name] += 1

    def _a_worker(self) -> Any:
        alive = [one for one in self._bed.fleet.workers.values() if one.process.poll() is None]
        return self._random.choice(alive) if alive else None

    def _kill_child(self) -> bool:
        worker = self._a_worker()
        family = worker.family()[1:] if worker is not None else []
        if family:
            self._random.choice(family).kill()
        return bool(family)

    def _kill_worker(self) -> bool:
        worker = self._a_worker()
        if worker is not None:
            worker.kill()
        return worker is not None

    def _drain_worker(self) -> bool:
        worker = self._a_worker()
        if worker is not None:
            worker.process.send_signal(signal.SIGTERM)
        return worker is not None

    def _freeze_worker(self) -> bool:
        """Longer than its lease: somebody else has its shard when it wakes up."""
        worker = self._a_worker()
        if worker is None:
            return False
        worker.process.send_signal(signal.SIGSTOP)
        _PACE.wait(4.0)
        worker.process.send_signal(signal.SIGCONT)
        return True

    def _drop_sockets(self) -> bool:
        return self._raw.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") is not None

    def _restart_broker(self) -> bool:
        self._bed.fleet.broker.kill()
        _PACE.wait(self._random.uniform(0.2, 3.0))
        self._bed.fleet.broker.start()
        return True

    def _freeze_broker(self) -> bool:
        """It takes connections and says nothing, for less or longer than anybody waits for an answer."""
        with self._bed.fleet.broker.frozen():
            _PACE.wait(self._random.uniform(0.5, 9.0))
        return True

    def _wipe_broker(self) -> bool:
        self._raw.flushall()
        return True

    def _hide_store(self) -> bool:
        """For a while every access to the store fails, as on a file server that went away."""
        loop = self._store.with_name("store.loop")
        loop.symlink_to(self._store)
        _exchange(self._store, loop)
        _PACE.wait(self._random.uniform(0.2, 1.5))
        _exchange(self._store, loop)
        loop.unlink()
        return True

    def _double(self) -> bool:
        found = self._raw.lrange(QUEUE_KEY, 0, -1) or self._messages
        if found:
            self._raw.lpush(QUEUE_KEY, self._random.choice(found))
        return bool(found)

    def _delay(self) -> bool:
        message = self._raw.rpop(QUEUE_KEY)
        if message is not None:
            self._late.append((time.monotonic() + self._random.uniform(1, 10), message))
        return message is not None

    def _replay(self) -> bool:
        if self._messages:
            self._raw.lpush(QUEUE_KEY, self._random.choice(self._messages))
        return bool(self._messages)

    def _cancel(self) -> bool:
        regrade = self._regrade()
        return regrade is not None and self._bed.mst("cancel", regrade.path).code == 0

    def _end_in_peace(self, coordinator: subprocess.Popen[str] | None) -> None:
        deadline = time.monotonic() + QUIET_S + self._faults_s
        current = coordinator
        while current is not None:
            if time.monotonic() > deadline:
                _kill_group(current)
                self.report.lost.append(f"not done in time: {current.communicate()[1][-500:]}")
                return
            _PACE.wait(0.1)
            self._look_after()
            current = self._keep_up(current)

    def _judge(self) -> None:
        regrade = self._regrade()
        assert regrade is not None
        quiz = self._bed.quiz
        calls = quiz.calls()
        self.report.units = len(quiz.keys)
        self.report.calls = sum(calls.values())
        self.report.again = sum(count > 1 for count in calls.values())
        self.report.different += differences(self._here.path, regrade.path)
        self.report.lost += [f"never asked about: {key}" for key in sorted(quiz.keys - set(calls))]
        durable, self.report.attempts = self._durable(regrade)
        self.report.paid_twice, self.report.overtaken = asked_again(quiz.lines("times"), durable)
        self.report.broken_rules += broken_rules(self._bed.fleet.client)

    def _durable(self, regrade: RunFolder) -> tuple[dict[str, float], int]:
        """Since when the store has each judged answer, and how many attempts there were."""
        found: dict[str, float] = {}
        home = self._store / "quiz" / "dispatches" / regrade.run_id
        self.report.dispatches = len(list(home.iterdir()))
        for attempt in home.glob("*/shards/*/attempts/*"):
            for since, unit in _stored(attempt):
                grading = unit.get("trialGrading")
                if grading is None or any(score.get("error") for score in grading["scores"].values()):
                    continue
                key = f"{grading['key']['variant'].upper()} {grading['key']['caseId']}"
                found[key] = min(found.get(key, float("inf")), since)
        self.report.shards = max((len(list(one.glob("shards/*"))) for one in home.iterdir()), default=0)
        return found, len(list(home.glob("*/shards/*/attempts/*")))


def asked_again(asked: Iterable[str], durable: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """What was asked although it was durable, in words: before the asking attempt began, and only since then.

    Args:
        asked: the quiz's `times`, each with when it was asked, when the attempt that asked began, and the key.
        durable: since when the store has each key.
    """
    before, since = list[str](), list[str]()
    for line in asked:
        at, began, key = line.split(" ", 2)
        stored = durable.get(key, float("inf"))
        if float(at) > stored:
            found = before if float(began) > stored else since
            found.append(f"{key}: durable at {stored:.3f}, asked again at {at} by an attempt that began at {began}")
    return before, since


def _stored(attempt: Path) -> Iterator[tuple[float, dict[str, Any]]]:
    """The units of an attempt in a `file:` store, each with since when it is there: as an object, or by its index.

    An object gets its name in the last step of its commit, and its inode changes then.
    """
    for path in attempt.glob("units/*.json"):
        yield path.stat().st_ctime, json.loads(path.read_bytes())
    for index in attempt.glob("indexes/*"):
        head, *entries = [json.loads(line) for line in index.read_bytes().splitlines()]
        data = (attempt / "packs" / head["pack"]).read_bytes()
        for entry in entries:
            if entry["path"].startswith("units/"):
                unit = data[entry["offset"] : entry["offset"] + entry["length"]]
                yield index.stat().st_ctime, json.loads(unit)


def _kill_group(process: subprocess.Popen[str]) -> bool:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return True


def _exchange(one: Path, other: Path) -> None:
    """Swap two names at once, so that nobody finds neither."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2", str(one))
