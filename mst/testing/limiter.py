"""What every limiter of calls must do; subclass the suite and give it a way to make limiters that share their state."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from mst.providers.rates import Ask, Rate
from mst.shards.limiter import CallLimiter

WAIT_S = 10.0
STILL_S = 0.3


class Caller:
    """Asks for turns and notes when they came."""

    def __init__(self, limiter: CallLimiter, rate: Rate) -> None:
        self.limiter = limiter
        self.rate = rate
        self.started: list[tuple[str, float]] = []
        self._changed = threading.Condition()

    def ask(self, *calls: str, tokens: int = 0) -> None:
        """Ask for a turn for each call."""
        for call in calls:
            self.limiter.ask(Ask(call, (self.rate,), tokens), lambda call=call: self._note(call))  # type: ignore[misc]  # bound now

    def _note(self, call: str) -> None:
        with self._changed:
            self.started.append((call, time.monotonic()))
            self._changed.notify_all()

    def names(self) -> list[str]:
        """The calls that have had their turn, in order."""
        with self._changed:
            return [call for call, _ in self.started]

    def wait(self, count: int, timeout_s: float = WAIT_S) -> list[str]:
        """Wait until so many calls have had their turn."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.started) >= count, timeout_s)
        assert came, f"{len(self.started)} of {count} turns came: {self.started}"
        return self.names()

    def stays(self, count: int, for_s: float = STILL_S) -> None:
        """See that no more than so many turns come for a while."""
        with self._changed:
            more = self._changed.wait_for(lambda: len(self.started) > count, for_s)
        assert not more, f"more than {count} turns came: {self.started}"


class LimiterContract(ABC):
    """The suite. `make` returns limiters that share one state; the first test may find it used."""

    @abstractmethod
    def make(self) -> Callable[[], CallLimiter]:
        """A way to make limiters over one fresh state."""

    def test_no_more_calls_run_at_once_than_allowed_and_each_end_lets_one_start(self) -> None:
        one = self.make()()
        caller = Caller(one, Rate("provider:p", concurrent=2))
        caller.ask("a", "b", "c", "d")
        assert caller.wait(2) == ["a", "b"]
        caller.stays(2)
        one.release("a")
        assert caller.wait(3)[2:] == ["c"]
        one.release("c")
        assert caller.wait(4)[3:] == ["d"]
        one.close()

    def test_calls_at_a_rate_are_spaced(self) -> None:
        one = self.make()()
        caller = Caller(one, Rate("provider:p", per_minute=600))
        caller.ask(*"abcdefghijk")
        caller.wait(11)
        times = [at for _, at in caller.started]
        assert caller.names() == list("abcdefghijk")
        # up to 0.2 s of lost time may be made up for at the start, by two calls
        assert 0.75 <= times[-1] - times[0] <= 5
        one.close()

    def test_what_calls_really_used_counts_for_those_after_them(self) -> None:
        one = self.make()()
        caller = Caller(one, Rate("provider:p", concurrent=1, tokens_per_minute=60_000))
        caller.ask("a", tokens=10)
        caller.wait(1)
        one.release("a", 1500)
        caller.ask("b", tokens=10)
        caller.stays(1, 0.8)
        caller.wait(2)
        one.close()

    def test_a_pause_holds_everything_on_its_resource_and_nothing_else(self) -> None:
        one = self.make()()
        caller = Caller(one, Rate("provider:p"))
        other = Caller(one, Rate("provider:q"))
        one.pause("provider:p", 1.6)
        began = time.monotonic()
        caller.ask("a")
        other.ask("b")
        other.wait(1)
        caller.stays(0, 0.3)
        caller.wait(1)
        assert time.monotonic() - began >= 1.55
        one.close()

    def test_a_call_that_gives_up_waiting_does_not_hold_up_the_next(self) -> None:
        one = self.make()()
        caller = Caller(one, Rate("provider:p", concurrent=1))
        caller.ask("a", "b", "c")
        caller.wait(1)
        one.release("b")
        one.release("a")
        assert caller.wait(2) == ["a", "c"]
        one.close()

    def test_without_limits_calls_start_at_once(self) -> None:
        one = self.make()()
        caller = Caller(one, Rate("provider:p"))
        caller.ask(*(f"c{number}" for number in range(50)))
        caller.wait(50)
        one.close()

    def test_closing_gives_back_what_was_held(self) -> None:
        make = self.make()
        one = make()
        first = Caller(one, Rate("provider:p", concurrent=1))
        first.ask("a")
        first.wait(1)
        one.close()
        one.close()
        two = make()
        second = Caller(two, Rate("provider:p", concurrent=1))
        second.ask("b")
        second.wait(1)
        two.close()
