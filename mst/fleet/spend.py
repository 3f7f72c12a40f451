"""A run's spending in Redis, for all workers alike."""

from __future__ import annotations

from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys
from mst.fleet.scripts import RETENTION_MS, Scripts
from mst.model.keys import RunId
from mst.model.shard import Work
from mst.shards.spend import Budget


def entry_name(work: Work, attempt_id: str) -> str:
    """What an attempt's entries are named by: collecting and grading a trial are different units of one run."""
    return f"{work}/{attempt_id}"


class FleetSpend:
    """The spending of one run. See `SpendLedger`."""

    def __init__(self, client: RedisClient, run_id: RunId, prefix: str = DEFAULT_PREFIX) -> None:
        self._client = client
        self._key = Keys(prefix).spend(run_id)
        self._scripts = Scripts(client)

    def reserve(self, unit: str, attempt: str, budget: Budget) -> str | None:
        """See `SpendLedger.reserve`."""
        caps = ["" if cap is None else repr(cap) for cap in (budget.tokens, budget.cost_usd)]
        args: list[str | int] = [f"{unit}:{attempt}", *caps, RETENTION_MS]
        found = self._scripts.run("spend_reserve", [self._key], args, doing="asking the budget")
        if not found:
            return None
        tokens, cost_usd = map(float, str(found).split())
        return budget.why_not(tokens=tokens, cost_usd=cost_usd) or "the budget is used up"

    def settle(self, unit: str, attempt: str, *, tokens: float, cost_usd: float) -> None:
        """See `SpendLedger.settle`."""
        args: list[str | int] = [f"{unit}:{attempt}", repr(float(tokens)), repr(float(cost_usd)), RETENTION_MS]
        self._scripts.run("spend_settle", [self._key], args, doing="noting what a unit cost")

    def settled(self, work: Work) -> dict[str, dict[str, tuple[float, float]]]:
        """Tokens and USD of everything that ended, by unit and by attempt ID, of one kind of work."""
        found: dict[str, dict[str, tuple[float, float]]] = {}
        with broker_errors("reading what was spent"):
            for field, text in self._client.hscan_iter(self._key, match=f"e:*:{entry_name(work, '*')}", count=500):
                _, unit, entry = field.split(":", 2)
                tokens, usd, is_settled = map(float, text.split())
                if is_settled:
                    found.setdefault(unit, {})[entry.partition("/")[2]] = (tokens, usd)
        return found

    def spent(self) -> tuple[float, float]:
        """Tokens and USD, what is set aside for units under way included."""
        with broker_errors("reading what was spent"):
            text = self._client.hget(self._key, "sum")
        tokens, cost_usd = map(float, text.split()) if text else (0.0, 0.0)
        return tokens, cost_usd
