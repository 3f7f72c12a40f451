"""Turns and budget of trials while they are collected: a shard asks its supervisor, a local run the same rules here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mst.collect.effective import effective_variant
from mst.collect.loop import CaseLookup
from mst.config.registry import lookup
from mst.model.base import Model
from mst.model.case import EvalPlan, Variant
from mst.model.keys import TrialKey
from mst.model.shard import Acquire, Granted, Paused, Released, UsageReport
from mst.model.trial import TrialRecord
from mst.shards.asking import Asking
from mst.shards.spend import trial_spent
from mst.shards.turns import Turns


class TrialTurns:
    """What a trial asks before it starts, and gives back after it. Of one event loop."""

    def __init__(self, asking: Asking, plan: EvalPlan, cases: CaseLookup) -> None:
        self._asking = asking
        self._plan = plan
        self._cases = cases
        self._turns: dict[TrialKey, int] = {}

    async def start(self, key: TrialKey) -> bool:
        """Wait for a trial's turn, which is not the program's time; False when none may start any more."""
        if not await self._asking.may_start(key):
            return False
        variant = effective_variant(self._cases[key.case_id], self._plan.variant(key.variant))
        resources = resources_of(variant)
        if resources:
            self._turns[key] = await self._asking.take(resources, key=key)
        return True

    def end(self, key: TrialKey, attempts: Sequence[TrialRecord]) -> None:
        """Give a trial's turn back and say what all attempts at it used."""
        tokens, cost_usd = trial_spent(attempts)
        turn = self._turns.pop(key, None)
        if turn is not None:
            self._asking.give(turn, tokens or None)
        if tokens or cost_usd:
            self._asking.used(key, tokens, cost_usd)


def resources_of(variant: Variant) -> list[str]:
    """What a trial of a variant uses: its model's provider, the model itself, and its servers by label.

    A client that waits for its turn at each request takes none of its provider for the whole trial.
    """
    found = [f"server:{label}" for label in variant.servers]
    if variant.model and not getattr(lookup("clients", variant.client), "paces_models", False):
        provider, slash, _ = variant.model.replace(":", "/", 1).partition("/")
        found += [f"provider:{variant.model}", *([f"provider:{provider}"] if slash else [])]
    return found


def asking_here(turns: Turns, *, has_budget: bool) -> Asking:
    """The asking side where no process lies between it and the side that answers. For the running event loop."""
    loop = asyncio.get_running_loop()

    def answer(granted: Granted) -> None:
        # RuntimeError: the loop has ended, so nobody waits any more
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(asking.granted, granted)

    def send(message: Model) -> None:
        assert isinstance(message, Acquire | Released | Paused | UsageReport)
        turns.hear(message, answer)

    asking = Asking(send, has_budget=has_budget)
    return asking
