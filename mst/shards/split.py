"""Which case goes to which shard. Pure, and the same for every version: a plan can be made again from its case IDs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from mst.errors import UsageError


def shard_of(case_id: str, count: int) -> int:
    """The shard of a case: the first four bytes of SHA-256 of its ID, big-endian, modulo the number of shards."""
    return int.from_bytes(hashlib.sha256(case_id.encode()).digest()[:4], "big") % count


def split(case_ids: Iterable[str], count: int) -> dict[int, list[str]]:
    """Whole cases by shard, in the order given. Shards without a case are left out.

    Raises:
        UsageError: fewer than one shard.
    """
    if count < 1:
        raise UsageError(f"shards={count}: at least one shard is needed")
    shards: dict[int, list[str]] = {}
    for case_id in case_ids:
        shards.setdefault(shard_of(case_id, count), []).append(case_id)
    return dict(sorted(shards.items()))
