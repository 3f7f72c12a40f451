"""What a coordinator on another machine needs to go on with a dispatch: its plan, beside `dispatch.json` in the store.

The record says which cases and how many units a shard has; the plan says which units, with the bundle digests that
their files name. The run itself is in the store as any pushed run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mst.config.files import write_atomic
from mst.errors import ObjectMissing, PreconditionFailed
from mst.model.shard import DispatchPlan
from mst.shards.contract import ShardSpec
from mst.shards.coordinate import PLAN, plan_record
from mst.store.contract import Store
from mst.store.layout import DispatchKeys, RunKeys


def plan_key(keys: DispatchKeys) -> str:
    """Where a dispatch's plan lies."""
    return f"{keys.folder}/{PLAN}"


def put_plan(store: Store, keys: DispatchKeys, shards: Sequence[ShardSpec]) -> None:
    """Put the plan of a dispatch into the store, once its number is claimed. Idempotent."""
    with suppress(PreconditionFailed):
        store.put_if_absent(plan_key(keys), plan_record(shards).to_json())


def recall_plan(store: Store, run_keys: RunKeys, dispatch: str, work: Path) -> bool:
    """Write a dispatch's plan from the store into a run's work folder, as if it had been sent from here.

    Returns:
        Whether there is one: without it, nothing was sent.
    """
    folder = work / dispatch
    if (folder / PLAN).is_file():
        return True
    key = plan_key(run_keys.dispatch(dispatch))
    try:
        data = store.get(key)
    except ObjectMissing:
        return False
    plan = DispatchPlan.from_json(data, f"{store.uri}: {key}")
    for shard in plan.shards:
        (folder / str(shard.index) / "results").mkdir(parents=True, exist_ok=True)
    write_atomic(folder / PLAN, data)
    return True
