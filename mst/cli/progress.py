"""What a person sees while a run goes on: one live line on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from mst.cli.options import is_fancy
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.trial import TrialRecord
from mst.report.figures import span
from mst.shards.contract import ShardState, UnitDone
from mst.shards.spend import grading_spent, trial_spent

if TYPE_CHECKING:
    from mst.fleet.coordinator_metrics import Counts

PLAIN_EVERY_S = 10.0
PLAIN_SHARE = 60
PLAIN_AT_MOST_S = 300.0
"""Plain lines come further apart as a run gets longer, so that a day of it is some hundred lines in a log; but some CI
systems end what says nothing for ten minutes."""
SAID_MAX = 300
"""Characters of one line."""
LOST_LINES = 20
"""So many shards' losses get a line each; a fleet that was away loses hundreds at once."""
LIVE_EVERY_S = 0.1
BAR = 24
CENT_USD = 0.01
FORECAST_AFTER_S = 5.0
FORECAST_SHARE = 20
"""The time left is told after so many seconds, or one in so many units: the first ones wait for programs to start."""
STATE_WORDS = {"committed": "done", "queued": "waiting", "lost": "going out again", "given_back": "changing workers"}
"""States of shards that have a plainer word on a terminal; `--json` keeps the states."""


class Progress:
    """Counts units and shards, and prints to stderr. Also the `ShardEvents` of a runner. Safe from any thread.

    Args:
        what: a word for what is done, such as `graded`.
        planned: how many units there are, as far as known.
        secrets: what shard workers may ask for.
        as_json: one JSON object a line instead of words.
    """

    def __init__(self, what: str, planned: int | None, secrets: Mapping[str, str], *, as_json: bool = False) -> None:
        self._what = what
        self._planned = planned
        self._secrets = secrets
        self._as_json = as_json
        self._live = is_fancy() and not as_json
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._printed = 0.0
        self._done = 0
        self._passed = 0
        self._problems = 0
        self._cost_usd = 0.0
        self._shards: dict[int, str] = {}
        self._by_shard: dict[int, int] = {}
        self._last_error = ""
        self._losses = 0
        self._unsaid = 0
        self._said_at = 0.0
        self._is_why_told = False
        self._served = ExitStack()

    def __enter__(self) -> Self:
        from mst.fleet.coordinator_metrics import served

        self._served.enter_context(served(self.counts))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._served.close()
        with self._lock:
            if self._live:
                sys.stderr.write("\r\x1b[K")
            if self._done:
                last = self._document() if self._as_json else self._fitted() if self._live else self._line()
                sys.stderr.write(last + "\n")
            sys.stderr.flush()

    def one_more(self, *, passed: bool | None, problem: bool = False, why: str = "", cost_usd: float = 0.0) -> None:
        """One more unit is done and durable. `why` it broke down is told of the first: the rest often have the same."""
        with self._lock:
            self._done += 1
            self._cost_usd += cost_usd
            self._passed += passed is True
            self._problems += problem
            if why and problem and not self._is_why_told:
                from mst.report.text import one_line

                self._is_why_told = True
                self._say(f"the first that broke down: {one_line(why, limit=240)}")
            self._show()

    def collected(self, record: TrialRecord) -> None:
        """One more trial is made in this process. See `CollectRequest.on_trial`."""
        _, usd = trial_spent([record])
        why = f"{record.variant}, {record.case_id}, trial {record.trial}: {record.error}"
        self.one_more(passed=None, problem=record.infrastructure_error, why=why, cost_usd=usd)

    async def graded(self, grading: TrialGrading | ComparisonGrading) -> None:
        """One more unit is graded in this process. See `GradingContext.told`."""
        _, usd = grading_spent(grading)
        passed = grading.passed if isinstance(grading, TrialGrading) else None
        why = next((f"{grader}: {error}" for grader, error in grading.errors.items()), "")
        self.one_more(passed=passed, problem=bool(why), why=why, cost_usd=usd)

    def unit(self, done: UnitDone) -> None:
        """See `ShardEvents.unit`."""
        self.one_more(passed=done.passed, problem=done.status in ("infra", "failed"))

    def count(self, shard: int, done: int) -> None:
        """See `ShardEvents.count`."""
        with self._lock:
            self._by_shard[shard] = max(done, self._by_shard.get(shard, 0))
            self._done = sum(self._by_shard.values())
            self._show()

    def state(self, state: ShardState) -> None:
        """See `ShardEvents.state`."""
        with self._lock:
            before = self._shards.get(state.shard)
            self._shards[state.shard] = state.state
            if state.state in ("lost", "failed") and state.reason:
                again = ", and goes out again" if state.state == "lost" else ""
                self._say_lost(f"shard {state.shard} {state.state}{again}: {state.reason}")
            elif state.state == "given_back":
                self._say_lost(f"shard {state.shard} given back by {state.machine or 'its worker'}: {state.reason}")
            elif before == "given_back" and state.state in ("starting", "running"):
                self._say_lost(f"shard {state.shard} goes on: {state.machine or 'another worker'} has it")
            elif state.state == "cancelled" and state.reason and state.reason.startswith("the budget"):
                self._say(state.reason)
            self._show()

    def planned(self, units: int) -> None:
        """See `ShardEvents.planned`. What was known before stays: a whole run may have more."""
        with self._lock:
            if self._planned is None:
                self._planned = units

    def cost(self, usd: float) -> None:
        """See `ShardEvents.cost`."""
        with self._lock:
            self._cost_usd = max(self._cost_usd, usd)

    def note(self, text: str) -> None:
        """See `ShardEvents.note`."""
        with self._lock:
            self._say(text)

    def tokens(self, shard: int, names: Sequence[str]) -> Mapping[str, str]:
        """See `ShardEvents.tokens`."""
        return {name: self._secrets[name] for name in names if name in self._secrets}

    def counts(self) -> Counts:
        """How far it is, for metrics."""
        from mst.fleet.coordinator_metrics import Counts

        with self._lock:
            return Counts(
                work="collect" if self._what == "collected" else "grade",
                planned=self._planned,
                done=self._done,
                passed=self._passed,
                problems=self._problems,
                shards=Counter(self._shards.values()),
            )

    def _say_lost(self, text: str) -> None:
        now = time.monotonic()
        self._losses += 1
        if self._losses > LOST_LINES and now - self._said_at < PLAIN_EVERY_S:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} more shards meanwhile)" if self._unsaid else ""
        self._said_at, self._unsaid = now, 0
        self._say(text.splitlines()[0][: SAID_MAX - len(more)] + more)

    def _say(self, text: str) -> None:
        first = text.splitlines()[0][:SAID_MAX]
        if first != self._last_error:
            self._last_error = first
            if self._live:
                click.echo("\r\x1b[K", err=True, nl=False)
            say(first, as_json=self._as_json)

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._printed < (LIVE_EVERY_S if self._live else self._pace_s(now - self._started)):
            return
        if not self._live and now - self._started < PLAIN_EVERY_S:
            return
        self._printed = now
        plain = self._document() if self._as_json else self._line()
        sys.stderr.write(f"\r\x1b[K{self._fitted()}" if self._live else plain + "\n")
        sys.stderr.flush()

    def _pace_s(self, elapsed: float) -> float:
        """How far apart lines are where they add up in a log; programs get them evenly."""
        return PLAIN_EVERY_S if self._as_json else min(PLAIN_AT_MOST_S, max(PLAIN_EVERY_S, elapsed / PLAIN_SHARE))

    def _document(self) -> str:
        """The same as a line of JSON, for programs."""
        from mst.model.printed.progress import ProgressLine

        elapsed_s = time.monotonic() - self._started
        rate = self._done / elapsed_s if elapsed_s > 0 else 0.0
        left_s = (self._planned - self._done) / rate if self._planned and rate > 0 else None
        line = ProgressLine(
            event="progress",
            what=self._what,
            done=self._done,
            planned=self._planned,
            passed=self._passed,
            problems=self._problems,
            cost_usd=round(self._cost_usd, 6),
            shards=dict(sorted(Counter(self._shards.values()).items())),
            elapsed_s=round(elapsed_s, 1),
            per_second=round(rate, 3),
            left_s=None if left_s is None else round(left_s),
            last_error=self._last_error or None,
        )
        return json.dumps(line.to_print())

    def _fitted(self) -> str:
        """The line on one row of the terminal: a row that breaks cannot be written over."""
        width, line = shutil.get_terminal_size().columns - 1, ""
        for bar in (BAR, BAR // 2, 0):
            if len(line := self._line(bar)) <= width:
                return line
        return line if len(line) <= width else line[: max(0, width - 1)] + "…"

    def _line(self, bar: int = 0) -> str:
        parts = []
        if bar and self._planned:
            filled = min(bar, bar * self._done // self._planned)
            parts.append("[" + "#" * filled + "." * (bar - filled) + "]")
        of = f"/{self._planned}" if self._planned else ""
        parts.append(f"{self._done}{of} {self._what}")
        if self._passed:
            parts.append(f"{self._passed} passed")
        if self._problems:
            parts.append(f"{self._problems} with errors")
        if self._shards:
            states = Counter(self._shards.values())
            said = (f"{number} {STATE_WORDS.get(state, state)}" for state, number in sorted(states.items()))
            parts.append(f"shards: {', '.join(said)}")
        if self._cost_usd:
            parts.append(f"{self._cost_usd:.2f} USD" if self._cost_usd >= CENT_USD else "under 0.01 USD")
        elapsed = time.monotonic() - self._started
        parts.append(span(elapsed))
        if self._planned and self._done and elapsed >= FORECAST_AFTER_S:
            parts.append(_rate(self._done / elapsed))
        if self._planned and 0 < self._done < self._planned and self._tells(elapsed):
            parts.append(f"about {span(elapsed / self._done * (self._planned - self._done))} left")
        return " · ".join(parts)

    def _tells(self, elapsed: float) -> bool:
        """Whether enough is done to tell from it what the rest will take."""
        assert self._planned is not None
        return self._done * FORECAST_SHARE >= self._planned or (self._done > 1 and elapsed >= FORECAST_AFTER_S)


def say(text: str, *, as_json: bool = False) -> None:
    """A line for people on stderr, or one of JSON for programs."""
    if as_json:
        from mst.model.printed.progress import NoteLine

        text = json.dumps(NoteLine(event="note", text=text).to_print())
    click.echo(text if as_json else f"mst: {text}", err=True)


def _rate(per_second: float) -> str:
    """How much is done in the shortest time in which that is one or more."""
    for word, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.3g}/{word}"
    return f"{per_second * 3600:.3g}/h"
