"""A fleet as events in time: shards arrive, machines boot, work, vanish, and go. Deterministic for a seed.

What is modelled: boot time, a slot a shard, overhead of each attempt, units of a shard one after another, a metric that
is read every minute, idle machines that end themselves, a scaler that takes machines away, spot losses with and without
a notice in time. A unit that was in flight when its machine went is repeated; finished units are kept, and the shard
waits again when the fleet has noticed: at once with a notice, after a lease and a janitor's look without.

What is not: the store's and the judges' limits, networks, prices that move.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mst.fleet.scale import Rule, Signal

Event = tuple[float, int, str, int, int]


@dataclass(frozen=True)
class Shard:
    """One shard of a trace: when it is sent, and how long each of its units takes."""

    at_s: float
    units_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class World:
    """What machines are like.

    Attributes:
        spot_losses_h: chance of losing a machine in an hour.
        noticed: share of losses with a notice in time to give the shard back.
        lost_s: until a shard that vanished without a notice is queued again.
    """

    boot_s: float = 180.0
    boot_spread: float = 0.25
    overhead_s: float = 8.0
    slots: int = 1
    metric_every_s: float = 60.0
    spot_losses_h: float = 0.03
    noticed: float = 0.8
    lost_s: float = 150.0
    price_h: float = 0.10
    first_workers: int = 0


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How a fleet grows and shrinks.

    Attributes:
        counts_running: whether the backlog counts shards that run; queue lengths don't.
        shrink: `self`: a machine ends itself after `idle_s`; `metric`: the scaler takes away what it thinks too many,
            whatever it does at the time; `protected`: the same, but only machines without a shard.
    """

    name: str
    rule: Rule
    counts_running: bool = True
    shrink: str = "self"
    idle_s: float = 300.0
    shrink_after_s: float = 900.0


@dataclass
class Result:
    """What came of it."""

    makespan_s: float = 0.0
    machine_s: float = 0.0
    busy_s: float = 0.0
    cost_usd: float = 0.0
    wait_s: float = 0.0
    waits: int = 0
    repeated_units: int = 0
    units: int = 0
    lost_machines: int = 0
    taken_from_work: int = 0
    peak: int = 0

    @property
    def waste(self) -> float:
        """Share of paid time in which a machine did not work on a shard."""
        return 1 - self.busy_s / self.machine_s if self.machine_s else 0.0


@dataclass
class Machine:
    """A machine that was asked for."""

    asked_s: float
    up: bool = False
    gone: bool = False
    idle_since: float | None = None
    held: dict[int, tuple[float, int, float]] = field(default_factory=dict)
    """By shard: when its first unit of this attempt began, the unit's number, when the attempt began."""


class Simulation:
    """One run of a trace under a policy."""

    def __init__(self, shards: Sequence[Shard], world: World, policy: Policy, *, seed: int = 1) -> None:
        self.world, self.policy, self.shards = world, policy, shards
        self.result = Result(units=sum(len(shard.units_s) for shard in shards))
        self._random = random.Random(seed)
        self._events: list[Event] = []
        self._serial = 0
        self._queue: deque[int] = deque()
        self._machines: list[Machine] = []
        self._live: set[int] = set()
        self._idle: set[int] = set()
        self._next_unit = [0] * len(shards)
        self._queued_at = [0.0] * len(shards)
        self._open = len(shards)
        self._running = 0
        self._over_since: float | None = None
        self._now = 0.0

    def run(self) -> Result:
        """To the last shard's end, and on until the last machine is gone (or only the least are left)."""
        for number, shard in enumerate(self.shards):
            self._push(shard.at_s, "arrive", number)
        for _ in range(self.world.first_workers):
            self._ask(0.0, boot_s=0.0)
        self._push(0.0, "look", 0)
        handlers: dict[str, Callable[[int, int], None]] = {
            "arrive": self._arrive, "up": self._up, "done": self._done, "lose": self._lose, "look": self._look,
            "idle": self._end_idle,
        }  # fmt: skip
        while self._events and (self._open or len(self._live) > self.policy.rule.least):
            self._now, _, kind, one, two = heapq.heappop(self._events)
            handlers[kind](one, two)
        for number in list(self._live):
            self._go(number)
        self.result.cost_usd = self.result.machine_s / 3600 * self.world.price_h
        return self.result

    def _push(self, at: float, kind: str, one: int, two: int = 0) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at, self._serial, kind, one, two))

    def _arrive(self, shard: int, _two: int) -> None:
        self._queued_at[shard] = self._now
        self._queue.append(shard)
        self._hand_out()

    def _ask(self, at: float, boot_s: float | None = None) -> None:
        number = len(self._machines)
        self._machines.append(Machine(at))
        self._live.add(number)
        self.result.peak = max(self.result.peak, len(self._live))
        if boot_s is None:
            boot_s = self.world.boot_s * self._random.uniform(1 - self.world.boot_spread, 1 + self.world.boot_spread)
        self._push(at + boot_s, "up", number)
        if self.world.spot_losses_h > 0:
            self._push(at + self._random.expovariate(self.world.spot_losses_h / 3600), "lose", number)

    def _up(self, number: int, _two: int) -> None:
        machine = self._machines[number]
        if machine.gone:
            return
        machine.up = True
        self._rest(number)
        self._hand_out()

    def _rest(self, number: int) -> None:
        machine = self._machines[number]
        self._idle.add(number)
        if not machine.held:
            machine.idle_since = self._now
            if self.policy.shrink == "self":
                self._push(self._now + self.policy.idle_s, "idle", number, int(self._now * 1000))

    def _hand_out(self) -> None:
        while self._queue and self._idle:
            number = next(iter(self._idle))
            machine = self._machines[number]
            shard = self._queue.popleft()
            self.result.wait_s += self._now - self._queued_at[shard]
            self.result.waits += 1
            began = self._now + self.world.overhead_s
            machine.held[shard] = (began, self._next_unit[shard], self._now)
            machine.idle_since = None
            self._running += 1
            left = sum(self.shards[shard].units_s[self._next_unit[shard] :])
            self._push(began + left, "done", number, shard)
            if len(machine.held) >= self.world.slots:
                self._idle.discard(number)

    def _done(self, number: int, shard: int) -> None:
        machine = self._machines[number]
        if machine.gone or shard not in machine.held:
            return
        self.result.busy_s += (self._now - machine.held.pop(shard)[2]) / self.world.slots
        self._running -= 1
        self._open -= 1
        self.result.makespan_s = self._now - self.shards[0].at_s
        self._rest(number)
        self._hand_out()

    def _lose(self, number: int, _two: int) -> None:
        if self._machines[number].gone:
            return
        self.result.lost_machines += 1
        again_s = 0.0 if self._random.random() < self.world.noticed else self.world.lost_s
        self._drop(number, again_s)

    def _drop(self, number: int, again_s: float) -> None:
        """A machine goes while it may hold shards: finished units are kept, the one in flight is repeated."""
        machine = self._machines[number]
        for shard, (began, first_unit, since) in machine.held.items():
            at, unit = began, first_unit
            while unit < len(self.shards[shard].units_s) and at + self.shards[shard].units_s[unit] <= self._now:
                at += self.shards[shard].units_s[unit]
                unit += 1
            self.result.repeated_units += at < self._now
            self.result.busy_s += (self._now - since) / self.world.slots
            self._next_unit[shard] = unit
            self._running -= 1
            self._push(self._now + again_s, "arrive", shard)
        machine.held.clear()
        self._go(number)

    def _go(self, number: int) -> None:
        machine = self._machines[number]
        machine.gone = True
        self._live.discard(number)
        self._idle.discard(number)
        self.result.machine_s += self._now - machine.asked_s

    def _end_idle(self, number: int, since_ms: int) -> None:
        machine = self._machines[number]
        if machine.gone or machine.held or machine.idle_since is None or int(machine.idle_since * 1000) != since_ms:
            return
        if len(self._live) > self.policy.rule.least:
            self._go(number)

    def _look(self, _one: int, _two: int) -> None:
        counted = self._running if self.policy.counts_running else 0
        up = sum(self._machines[number].up for number in self._live)
        signal = Signal(queued=len(self._queue), running=counted, workers=up, slots=self.world.slots)
        wanted = self.policy.rule.desired(signal)
        for _ in range(wanted - len(self._live)):
            self._ask(self._now)
        self._shrink(len(self._live) - wanted)
        self._push(self._now + self.world.metric_every_s, "look", 0)

    def _shrink(self, surplus: int) -> None:
        if self.policy.shrink == "self":
            return
        if surplus <= 0:
            self._over_since = None
            return
        self._over_since = self._now if self._over_since is None else self._over_since
        if self._now - self._over_since < self.policy.shrink_after_s:
            return
        # groups take the oldest first, and know nothing of shards
        candidates = sorted(self._live)
        if self.policy.shrink == "protected":
            candidates = [number for number in candidates if not self._machines[number].held]
        for number in candidates[:surplus]:
            self.result.taken_from_work += bool(self._machines[number].held)
            self._drop(number, 0.0)
        self._hand_out()
