"""When a cloud machine's worker stops: on a notice, and when it was idle; and that it is left alone meanwhile.

busy  -> protected from scale-in
idle  -> not protected; after `idle_s` no more work is taken, and the machine ends itself
notice `rebalance` -> no more work; units in flight have their own time limit
notice `stop`      -> the same, and after `grace_s` what still runs is given back unfinished
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import structlog

from mst.errors import InfrastructureError
from mst.fleet.machine import Machine, Notice

log = structlog.get_logger(__name__)

LOOK_S = 5.0
GRACE_S = 60.0

Step = Literal["protect", "release", "drain", "hurry", "retire"]


@dataclass
class Watch:
    """What was seen and done so far. `decide` is pure: it changes nothing but this.

    Attributes:
        idle_s: after so long without a shard the machine goes; None for never.
        grace_s: for units in flight after a `stop`.
    """

    idle_s: float | None
    grace_s: float = GRACE_S
    idle_since: float | None = None
    protected: bool | None = None
    draining_since: float | None = None
    is_stop: bool = False
    steps_done: set[Step] = field(default_factory=set)

    def decide(self, *, now: float, held: int, notice: Notice) -> list[Step]:
        """What to do now, in order. Each of `drain`, `hurry` and `retire` is said once."""
        steps: list[Step] = []
        self._note(now, held, notice)
        if self.draining_since is not None:
            steps.append("drain")
            if self.is_stop and now - self.draining_since >= self.grace_s:
                steps.append("hurry")
        elif self.idle_s is not None and self.idle_since is not None and now - self.idle_since >= self.idle_s:
            steps.append("retire")
        steps = [step for step in steps if step not in self.steps_done]
        self.steps_done.update(steps)
        if held and self.protected is not True and self.draining_since is None:
            steps.insert(0, "protect")
        elif not held and self.protected is not False:
            steps.insert(0, "release")
        return steps

    def _note(self, now: float, held: int, notice: Notice) -> None:
        self.idle_since = None if held else (now if self.idle_since is None else self.idle_since)
        if notice != "none" and self.draining_since is None:
            self.draining_since = now
        if notice == "stop" and not self.is_stop:
            self.is_stop, self.draining_since = True, now


class Keeper:
    """Looks at a machine from a thread of its own, for as long as a worker runs.

    Args:
        drain: asks the worker to take no more and to end when its units have.
        hurry: ends what still runs; its shards are given back.
        shards_may_wait: whether a shard arrived between the last look and now is the queue's business, not ours: a
            worker that retires leaves its queues first and finishes what it was granted.
    """

    def __init__(
        self,
        machine: Machine,
        watch: Watch,
        *,
        drain: Callable[[], None],
        hurry: Callable[[], None],
        every_s: float = LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.retired = False
        self._machine = machine
        self._watch = watch
        self._drain = drain
        self._hurry = hurry
        self._every_s = every_s
        self._clock = clock
        self._held = 0
        self._lock = threading.Lock()
        self._drained = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="mst-machine")

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Around a shard's work: the machine is protected before it begins."""
        with self._lock:
            self._held += 1
        self.look()
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1

    def start(self) -> None:
        """Look until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Safe to call twice."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def finish(self) -> None:
        """After the worker has ended: end the machine, if it is here because it was idle."""
        if not self.retired:
            return
        try:
            self._machine.end()
        except InfrastructureError as error:
            log.warning("machine_not_ended", reason=str(error)[:500])

    def look(self) -> None:
        """One look and what follows from it. A cloud that does not answer changes nothing; the next look asks again."""
        notice = self._machine.notice()
        with self._lock:
            steps = self._watch.decide(now=self._clock(), held=self._held, notice=notice)
            for step in steps:
                self._do(step, notice)

    def _do(self, step: Step, notice: Notice) -> None:
        if step in ("protect", "release"):
            self._protect(step == "protect")
            return
        log.warning("machine", step=step, notice=notice)
        if step == "hurry":
            self._hurry()
            return
        self.retired = self.retired or step == "retire"
        if not self._drained:
            # once: a second request would end the worker at once
            self._drained = True
            self._drain()

    def _protect(self, protected: bool) -> None:
        try:
            self._machine.protect(protected)
        except InfrastructureError as error:
            log.warning("machine_not_protected", wanted=protected, reason=str(error)[:500])
        else:
            self._watch.protected = protected

    def _keep(self) -> None:
        while not self._ended.wait(self._every_s):
            self.look()
