"""What attempts used whose units do not count: they were paid for, and another attempt's unit took their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mst.errors import BrokerError
from mst.fleet.spend import FleetSpend
from mst.model.shard import unit_name
from mst.shards.contract import ShardOutcome, ShardSpec
from mst.shards.spend import spend_unit
from mst.shards.units import UNITS, read_unit

Used = tuple[float, float]
"""Tokens and USD."""


def with_wasted(outcomes: Sequence[ShardOutcome], shards: Sequence[ShardSpec], spend: FleetSpend) -> list[ShardOutcome]:
    """The outcomes with what lost attempts used, as far as the run's spend ledger knows. Needs the shards' results.

    A ledger that is away or was wiped knows nothing; the run is whole without it.
    """
    try:
        used = spend.settled(shards[0].work) if shards else {}
    except BrokerError:
        return list(outcomes)
    found = {spec.index: wasted_by(spec, used) for spec in shards} if used else {}
    return [
        replace(outcome, wasted_tokens=round(found[outcome.shard][0]), wasted_usd=found[outcome.shard][1])
        if outcome.shard in found
        else outcome
        for outcome in outcomes
    ]


def wasted_by(spec: ShardSpec, used: Mapping[str, Mapping[str, Used]]) -> Used:
    """What attempts at one shard used for units that are another attempt's, or nobody's.

    Args:
        spec: with its results.
        used: by unit, as the ledger names it, and by attempt ID.
    """
    tokens, usd = 0.0, 0.0
    for key in spec.planned:
        by_attempt = used.get(spend_unit(key))
        if by_attempt is None:
            continue
        unit = read_unit(spec.results / UNITS / unit_name(key), key, spec.digest)
        for attempt, (more_tokens, more_usd) in by_attempt.items():
            if unit is None or attempt != unit.attempt:
                tokens, usd = tokens + more_tokens, usd + more_usd
    return tokens, usd
