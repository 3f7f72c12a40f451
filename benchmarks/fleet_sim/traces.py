"""What arrives: arrival times and shard times, deterministic for a seed."""

from __future__ import annotations

import math
import random

from model import Shard

DAY_S = 86400.0


def units_of(chance: random.Random, *, median_s: float, spread: float, unit_s: float) -> tuple[float, ...]:
    """A shard's units: its time is lognormal around a median, its units are about equally long."""
    total = chance.lognormvariate(math.log(median_s), spread)
    count = max(1, round(total / unit_s))
    parts = [chance.uniform(0.5, 1.5) for _ in range(count)]
    return tuple(total * part / sum(parts) for part in parts)


def burst(
    shards: int, *, seed: int = 1, median_s: float = 900.0, spread: float = 0.6, unit_s: float = 60.0
) -> list[Shard]:
    """One run: everything at once."""
    chance = random.Random(seed)
    return [Shard(0.0, units_of(chance, median_s=median_s, spread=spread, unit_s=unit_s)) for _ in range(shards)]


def office(
    shards: int, *, seed: int = 1, median_s: float = 900.0, spread: float = 0.6, unit_s: float = 60.0
) -> list[Shard]:
    """A day: runs of different sizes, most of them in eight hours."""
    chance = random.Random(seed)
    found: list[Shard] = []
    while len(found) < shards:
        at = chance.uniform(8, 16) * 3600 if chance.random() < 0.85 else chance.uniform(0, 24) * 3600
        size = max(1, round(chance.lognormvariate(math.log(max(2, shards / 40)), 1.0)))
        found += [
            Shard(at, units_of(chance, median_s=median_s, spread=spread, unit_s=unit_s))
            for _ in range(min(shards - len(found), size))
        ]
    found.sort(key=lambda shard: shard.at_s)
    return found


def trickle(
    shards: int, *, seed: int = 1, median_s: float = 900.0, spread: float = 0.6, unit_s: float = 60.0
) -> list[Shard]:
    """A day: single shards at random times, as from commits."""
    chance = random.Random(seed)
    times = sorted(chance.uniform(0, DAY_S) for _ in range(shards))
    return [Shard(at, units_of(chance, median_s=median_s, spread=spread, unit_s=unit_s)) for at in times]


TRACES = {"burst": burst, "office": office, "trickle": trickle}
