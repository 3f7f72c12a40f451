"""Turns for calls to providers and servers over a whole fleet: the state is in Redis, one script a step.

A worker process is one holder. Its calls live as long as it is heard of: what a dead worker had returns by itself. No
answer from Redis means that nothing new starts; calls under way go on, and are written again after a wipe. A turn
that reaches its call long after its time is given back and asked for again: calls that were held up together would
otherwise start together.
"""

from __future__ import annotations

import heapq
import itertools
import json
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mst.errors import BrokerError
from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.scripts import Scripts
from mst.providers.rates import HORIZON_MS, LIMITS, MARGIN, SLACK_MS, Ask, Rate, caps_of
from mst.shards.limiter import Granted

HOLDER_TTL_S = 10.0
"""A worker that is not heard of for so long has nothing any more."""
KNOWN_PARTS = 8
"""Everything that is known is said this often within the life of a holder."""
LISTEN_S = 1.0
RETRY_S = 0.5
BATCH = 256
LATE_S = 0.5
"""A turn that a call would take later than this after its time is not taken; twice as late the next time, and so on."""


@dataclass
class _Call:
    ask: Ask
    granted: Granted
    has: bool = False
    late_s: float = LATE_S


@dataclass
class _Word:
    """What is to be said to Redis next."""

    asks: list[Ask] = field(default_factory=list)
    releases: list[tuple[str, int | None]] = field(default_factory=list)
    pauses: list[tuple[str, float]] = field(default_factory=list)


class FleetLimiter:
    """One worker process's way to the fleet's turns. See `CallLimiter`.

    Args:
        client: short answers are best: while one is waited for, nothing starts.
        ttl_s: how long this process may be silent before its share returns.
    """

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX, *, ttl_s: float = HOLDER_TTL_S) -> None:
        self._client = client
        self._place = Keys(prefix).limits()
        self._scripts = Scripts(client)
        self._holder = secrets.token_hex(8)
        self._ttl_s = ttl_s
        self._calls: dict[str, _Call] = {}
        self._lock = threading.Lock()
        self._post: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, str]] = []
        self._clock = _Clock()
        self._count = itertools.count()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def ask(self, ask: Ask, granted: Granted) -> None:
        """See `CallLimiter.ask`."""
        with self._lock:
            if self._ended.is_set() or ask.call in self._calls:
                return
            self._calls[ask.call] = _Call(ask, granted)
            if not self._threads:
                self._start()
        self._post.put(ask)

    def release(self, call: str, used: int | None = None) -> None:
        """See `CallLimiter.release`."""
        with self._lock:
            known = self._calls.pop(call, None)
        if known is not None:
            self._post.put(_Release(call, used))

    def pause(self, resource: str, seconds: float) -> None:
        """See `CallLimiter.pause`."""
        with self._lock:
            if not self._threads and not self._ended.is_set():
                self._start()
        self._post.put(_Pause(resource, seconds))

    def close(self) -> None:
        """See `CallLimiter.close`."""
        with self._lock:
            calls, self._calls = list(self._calls), {}
            running = bool(self._threads) and not self._ended.is_set()
            self._ended.set()
        self._post.put(None)
        for thread in self._threads:
            thread.join()
        if running and calls:
            with suppress(BrokerError):
                self._say(_Word(releases=[(call, None) for call in calls]), known=[])

    def _start(self) -> None:
        for target, name in ((self._talk, "mst-limits-talk"), (self._listen, "mst-limits-listen")):
            thread = threading.Thread(target=target, daemon=True, name=name)
            self._threads.append(thread)
            thread.start()

    def _talk(self) -> None:
        word, look_at, known_at = _Word(), 0.0, 0.0
        while not self._ended.is_set():
            now = time.monotonic()
            self._let_start(now)
            self._gather(word, self._patience_s(min(look_at, known_at)))
            now = time.monotonic()
            known = self._known() if now >= known_at else None
            if not (word.asks or word.releases or word.pauses or known is not None or now >= look_at):
                continue
            try:
                again_s = self._say(word, known=known)
            except BrokerError:
                # what was asked is said again as known; what was released is missing from it
                look_at, known_at, word = now + RETRY_S, now + RETRY_S, _Word(pauses=word.pauses[-BATCH:])
                continue
            word = _Word()
            look_at = now + again_s if again_s is not None else now + self._ttl_s
            if known is not None:
                known_at = now + self._ttl_s / KNOWN_PARTS

    def _patience_s(self, until: float) -> float:
        if self._timers:
            until = min(until, self._timers[0][0])
        return max(0.0, until - time.monotonic())

    def _gather(self, word: _Word, patience_s: float) -> None:
        """Take what was posted; wait for the first of it."""
        try:
            item = self._post.get(timeout=patience_s)
            for _ in range(BATCH):
                self._sort(item, word)
                item = self._post.get_nowait()
            self._sort(item, word)
        except queue.Empty:
            return

    def _sort(self, item: object, word: _Word) -> None:
        match item:
            case Ask():
                word.asks.append(item)
            case _Pause():
                word.pauses.append((item.resource, item.until))
            case _Turn():
                heapq.heappush(self._timers, (item.at, next(self._count), item.call))
            case _Release():
                word.releases.append((item.call, item.used))
            case _:
                return

    def _known(self) -> list[dict[str, Any]]:
        with self._lock:
            calls = list(self._calls.values())
        return [{**_plain(call.ask), "has": call.has} for call in calls]

    def _say(self, word: _Word, *, known: Sequence[Mapping[str, Any]] | None) -> float | None:
        """One step of the script; returns in how many seconds somebody should look again."""
        now = time.monotonic()
        with self._lock:
            asks = [ask for ask in word.asks if ask.call in self._calls]
        given: dict[str, Any] = {
            "asks": [_plain(ask) for ask in asks],
            "releases": [{"call": call, "used": used} for call, used in word.releases],
            "pauses": [{"resource": name, "ms": max(0.0, until - now) * 1000} for name, until in word.pauses],
        }
        if known is not None:
            given["known"] = known
        args: list[str | int] = [
            self._holder, int(self._ttl_s * 1000), json.dumps(given), str(MARGIN), str(SLACK_MS), str(HORIZON_MS),
            int(self._ttl_s * 2000 / KNOWN_PARTS),
        ]  # fmt: skip
        again_ms, _, there_ms = self._scripts.run("limit", [self._place], args, doing="asking for a turn")
        self._clock.heard(float(there_ms) / 1000, now)
        return None if int(again_ms) < 0 else int(again_ms) / 1000

    def _listen(self) -> None:
        inbox = f"{self._place}inbox:{self._holder}"
        while not self._ended.is_set():
            try:
                with broker_errors("waiting for a turn"):
                    found = self._client.blpop([inbox], timeout=LISTEN_S)
            except BrokerError:
                self._ended.wait(RETRY_S)
                continue
            if found is not None:
                name, _, at_ms = str(found[1]).rpartition(" ")
                turn = _Turn(name.partition("/")[2], self._clock.here(float(at_ms) / 1000))
                if turn.at <= time.monotonic():
                    self._let_go(turn.call, turn.at)
                else:
                    self._post.put(turn)

    def _let_start(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, _, call = heapq.heappop(self._timers)
            self._let_go(call, at)

    def _let_go(self, name: str, at: float) -> None:
        with self._lock:
            call = self._calls.get(name)
            if call is None or call.has:
                return
            late = time.monotonic() - at > call.late_s
            if late:
                call.late_s *= 2
            else:
                call.has = True
        if late:
            self._post.put(_Release(name, None))
            self._post.put(call.ask)
            return
        with suppress(OSError):
            call.granted()


class _Clock:
    """When something is here that has a time there. Errs to early: then a turn seems later than it is, never fresher.

    Every answer bounds the difference of the clocks from above by when it was asked for. The lowest of the last
    answers stands; older ones are forgotten, since clocks are set.
    """

    def __init__(self) -> None:
        self._bounds: deque[float] = deque(maxlen=KNOWN_PARTS)
        self._ahead: float | None = None

    def heard(self, there: float, asked: float) -> None:
        """An answer said this time there; it was asked for at this time here."""
        self._bounds.append(there - asked)
        self._ahead = min(self._bounds)

    def here(self, there: float) -> float:
        """The time here; now, when nothing was heard yet: a turn may come before the answer to what asked for it."""
        ahead = self._ahead
        return time.monotonic() if ahead is None else there - ahead


@dataclass(frozen=True)
class _Turn:
    call: str
    at: float


@dataclass(frozen=True)
class _Release:
    call: str
    used: int | None


class _Pause:
    def __init__(self, resource: str, seconds: float) -> None:
        self.resource = resource
        self.until = time.monotonic() + seconds


def _plain(ask: Ask) -> dict[str, Any]:
    wants = json.dumps([rate.to_dict() for rate in ask.wants], sort_keys=True)
    return {"call": ask.call, "class": wants, "tokens": ask.tokens}


@dataclass(frozen=True, kw_only=True)
class InUse:
    """What is known of one resource.

    Attributes:
        running: calls that have a turn.
        waiting: calls that wait for one.
        paused_s: how long no call starts because the provider said so.
        cap: limits set for the whole fleet.
    """

    resource: str
    running: int
    waiting: int
    paused_s: float
    cap: Rate


class LimitBook:
    """What operators see and set: the fleet's own limits, which may only lower what an eval allows."""

    def __init__(self, client: RedisClient, prefix: str = DEFAULT_PREFIX) -> None:
        self._client = client
        self._place = Keys(prefix).limits()

    def caps(self) -> dict[str, Rate]:
        """The limits that are set, by resource."""
        with broker_errors("reading limits"):
            found = self._client.hgetall(f"{self._place}caps")
        return caps_of({name: json.loads(text) for name, text in found.items()})

    def set_cap(self, cap: Rate) -> None:
        """Set or replace a resource's limits; without any they are removed. Holds from the next turn on."""
        limits = {key: value for key, value in cap.to_dict().items() if key in LIMITS}
        with broker_errors("setting a limit"):
            if limits:
                self._client.hset(f"{self._place}caps", cap.resource, json.dumps(limits))
            else:
                self._client.hdel(f"{self._place}caps", cap.resource)

    def in_use(self) -> list[InUse]:
        """Every resource that is or was used lately or has a limit, by name. Not one moment's picture."""
        caps = self.caps()
        with broker_errors("reading limits"):
            names = sorted({*self._client.smembers(f"{self._place}resources"), *caps})
            waiting = self._waiting()
            seconds, micros = self._client.time()
            now_ms = seconds * 1000 + micros / 1000
            return [
                InUse(
                    resource=name,
                    running=int(self._client.scard(f"{self._place}use:{name}")),
                    waiting=waiting.get(name, 0),
                    paused_s=max(0.0, self._paused_until(name) - now_ms) / 1000,
                    cap=caps.get(name, Rate(name)),
                )
                for name in names
            ]

    def _paused_until(self, name: str) -> float:
        return float(self._client.hget(f"{self._place}state:{name}", "paused") or 0.0)

    def _waiting(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for text in self._client.hvals(f"{self._place}calls"):
            call = json.loads(text)
            if "granted" not in call:
                for name in _resources(call["class"]):
                    found[name] = found.get(name, 0) + 1
        return found


def _resources(wants: str) -> Iterable[str]:
    return [want["resource"] for want in json.loads(wants)]
