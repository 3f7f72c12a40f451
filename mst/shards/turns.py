"""The supervisor's side of `acquire`, `granted`, `released`, `paused` and `usage`: one attempt's calls and units."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mst.errors import BrokerError
from mst.model.shard import (
    Acquire,
    Granted,
    JudgeAnswered,
    JudgeFailed,
    JudgeStopped,
    Paused,
    Released,
    UnitKey,
    UsageReport,
)
from mst.providers.rates import Ask, Rate, wanted
from mst.shards.faults import JudgeFaults
from mst.shards.limiter import CallLimiter
from mst.shards.spend import Budget, SpendLedger, spend_unit

Answer = Callable[[Granted], None]


class Turns:
    """Asks limiter and spend ledger on behalf of one attempt. `close` gives back whatever it still has.

    Args:
        limiter: shared by all attempts of this machine.
        rates: the plan's, by resource.
        spend: the run's ledger; asked only when there is a budget.
        budget: the plan's.
        attempt: its ID; names its calls and its entries.
        told: hears of every unit's usage once, as it comes.
        faults: of judges, over all shards; without it each worker finds out for itself.

    Attributes:
        refused: why a unit was not started; empty while none was refused.
    """

    def __init__(
        self,
        limiter: CallLimiter,
        rates: Mapping[str, Rate],
        *,
        spend: SpendLedger,
        budget: Budget | None,
        attempt: str,
        told: Callable[[UsageReport], None] | None = None,
        faults: JudgeFaults | None = None,
    ) -> None:
        self.refused = ""
        self._limiter = limiter
        self._rates = rates
        self._spend = spend
        self._budget = budget
        self._attempt = attempt
        self._told = told
        self._faults = faults
        self._calls: set[int] = set()
        self._unasked: dict[UnitKey, Answer] = {}
        self._unsettled: dict[UnitKey, UsageReport] = {}

    def hear(self, message: Acquire | Released | Paused | UsageReport, answer: Answer) -> None:
        """Take one of the worker's messages; see the methods below."""
        match message:
            case Acquire():
                self.acquire(message, answer)
            case Released():
                self.released(message.call, message.tokens)
            case Paused():
                self.paused(message.resource, message.seconds)
            case UsageReport():
                self.used(message)

    def acquire(self, message: Acquire, answer: Answer) -> None:
        """A call wants its turn, or a unit wants to start. The answer comes when it may."""
        if message.call is not None:
            self._calls.add(message.call)
            granted = Granted(call=message.call, key=message.key)
            self._limiter.ask(
                Ask(self._name(message.call), wanted(message.resources, self._rates), message.tokens),
                lambda: answer(granted),
            )
        elif message.key is not None:
            self._unasked[message.key] = answer
            self.tick()

    def released(self, call: int, tokens: int | None) -> None:
        """A call has ended."""
        self._calls.discard(call)
        self._limiter.release(self._name(call), tokens)

    def paused(self, resource: str, seconds: float) -> None:
        """A provider told a call to wait."""
        self._limiter.pause(resource, seconds)

    def used(self, report: UsageReport) -> None:
        """A unit has ended and says what it used."""
        if self._told is not None:
            self._told(report)
        if report.tokens or report.cost_usd:
            self._unsettled[report.key] = report
            self.tick()

    def tick(self) -> None:
        """Tell and ask the spend ledger what it has not been told and asked. Without an answer nothing starts."""
        try:
            for key, report in list(self._unsettled.items()):
                self._spend.settle(
                    spend_unit(key), self._attempt, tokens=report.tokens or 0, cost_usd=report.cost_usd or 0.0
                )
                del self._unsettled[key]
            for key, answer in list(self._unasked.items()):
                why = self._spend.reserve(spend_unit(key), self._attempt, self._budget) if self._budget else None
                del self._unasked[key]
                self.refused = self.refused or why or ""
                answer(Granted(key=key, refused=why))
        except BrokerError:
            return

    def stopped(self) -> list[JudgeStopped]:
        """The judges that other shards found to be gone; none when nobody answers."""
        try:
            found = self._faults.stopped() if self._faults is not None else {}
        except BrokerError:
            return []
        return [JudgeStopped(judge=judge, reason=reason) for judge, reason in found.items()]

    def judged(self, message: JudgeFailed | JudgeAnswered) -> JudgeStopped | None:
        """A judge failed or answered; what the worker must be told. Without an answer its own count goes on."""
        if self._faults is None:
            return None
        try:
            if isinstance(message, JudgeAnswered):
                self._faults.answered(message.judge)
                return None
            reason = self._faults.failed(message.judge, message.kind, message.message)
        except BrokerError:
            return None
        return JudgeStopped(judge=message.judge, reason=reason) if reason else None

    def close(self) -> None:
        """Give back every turn. Safe to call twice."""
        for call in self._calls:
            self._limiter.release(self._name(call))
        self._calls.clear()

    def _name(self, call: int) -> str:
        return f"{self._attempt}.{call}"
