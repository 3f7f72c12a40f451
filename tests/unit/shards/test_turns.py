"""The supervisor's side of limits and budgets."""

from mst.errors import BrokerError
from mst.model.keys import TrialKey
from mst.model.shard import Acquire, UsageReport
from mst.providers.rates import rates_of
from mst.shards.limiter import LocalLimiter
from mst.shards.spend import Budget, LocalSpend
from mst.shards.turns import Turns
from mst.testing.commandline import until

RATES = rates_of({"providers": {"p": {"concurrent": 1}}})


def key(number):
    return TrialKey(variant="a", case_id=f"c{number}", trial=0)


def make(limiter=None, spend=None, budget=None, attempt="1-" + "a" * 16):
    return Turns(limiter or LocalLimiter(), RATES, spend=spend or LocalSpend(), budget=budget, attempt=attempt)


def test_closing_an_attempt_lets_the_calls_of_others_start():
    limiter = LocalLimiter()
    one, two, answers = make(limiter), make(limiter, attempt="1-" + "b" * 16), []
    one.acquire(Acquire(call=1, resources=["provider:p"]), answers.append)
    until(lambda: len(answers) == 1, "the first has its turn")
    two.acquire(Acquire(call=1, resources=["provider:p"]), answers.append)
    one.close()
    one.close()
    until(lambda: len(answers) == 2, "the second has it")
    assert [answer.call for answer in answers] == [1, 1]
    limiter.close()


def test_units_start_while_the_budget_has_room_and_say_why_not():
    turns, answers = make(budget=Budget(tokens=100)), []
    turns.acquire(Acquire(key=key(1)), answers.append)
    turns.used(UsageReport(key=key(1), tokens=100))
    turns.acquire(Acquire(key=key(2)), answers.append)
    assert [answer.refused for answer in answers] == [
        None,
        "the budget is used up: 100 of 100 tokens are spent or in use",
    ]
    assert turns.refused == answers[1].refused


def test_without_a_budget_nobody_is_asked():
    class Away(LocalSpend):
        def reserve(self, unit, attempt, budget):
            raise BrokerError("away")

    turns, answers = make(spend=Away()), []
    turns.acquire(Acquire(key=key(1)), answers.append)
    assert [answer.refused for answer in answers] == [None]


def test_nothing_starts_while_the_ledger_cannot_be_reached_and_usage_is_told_later():
    class Away(LocalSpend):
        away = True

        def reserve(self, unit, attempt, budget):
            if self.away:
                raise BrokerError("away")
            return super().reserve(unit, attempt, budget)

        def settle(self, unit, attempt, *, tokens, cost_usd):
            if self.away:
                raise BrokerError("away")
            super().settle(unit, attempt, tokens=tokens, cost_usd=cost_usd)

    spend, answers = Away(), []
    turns = make(spend=spend, budget=Budget(cost_usd=1.0))
    turns.used(UsageReport(key=key(1), cost_usd=2.0))
    turns.acquire(Acquire(key=key(2)), answers.append)
    turns.tick()
    assert answers == []
    spend.away = False
    turns.tick()
    assert [answer.refused for answer in answers] == ["the budget is used up: 2 of 1 USD are spent or in use"]
