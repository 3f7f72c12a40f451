"""What a coordinator on another machine needs to go on with a dispatch: its plan, beside `dispatch.json` in the store.

The record says which cases and how many units a shard has; the plan says which units, with the bundle digests that
their files name. The run itself is in the store as any pushed run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mst.config.files import write_atomic
from mst.errors import DigestMismatch, ObjectMissing, PreconditionFailed
from mst.model.fleet import DispatchRecord
from mst.model.shard import DispatchPlan
from mst.shards.archive import unpack
from mst.shards.contract import ShardSpec
from mst.shards.coordinate import PLAN, plan_record
from mst.store.contract import Store
from mst.store.layout import DispatchKeys, RunKeys

_DISPATCH = re.compile(r"d[1-9]\d{0,5}")


def plan_key(keys: DispatchKeys) -> str:
    """Where a dispatch's plan lies."""
    return f"{keys.folder}/{PLAN}"


def put_plan(store: Store, keys: DispatchKeys, shards: Sequence[ShardSpec]) -> None:
    """Put the plan of a dispatch into the store, once its number is claimed. Idempotent."""
    with suppress(PreconditionFailed):
        store.put_if_absent(plan_key(keys), plan_record(shards).to_json())


def recall_plans(store: Store, run_keys: RunKeys, work: Path) -> None:
    """Write the plans of a run's dispatches from the store into its work folder, as if they had been sent from here.

    A dispatch without a plan is left out: nothing was sent. What the work folder has is not asked for.
    """
    for name in store.list_folder(run_keys.dispatches).folders:
        if _DISPATCH.fullmatch(name) and not (work / name / PLAN).is_file():
            _recall_plan(store, plan_key(run_keys.dispatch(name)), work / name)


def _recall_plan(store: Store, key: str, folder: Path) -> None:
    try:
        data = store.get(key)
    except ObjectMissing:
        return
    plan = DispatchPlan.from_json(data, f"{store.uri}: {key}")
    for shard in plan.shards:
        (folder / str(shard.index) / "results").mkdir(parents=True, exist_ok=True)
    write_atomic(folder / PLAN, data)


def bring_bundles(store: Store, keys: DispatchKeys, record: DispatchRecord, shards: Sequence[ShardSpec]) -> None:
    """Fetch and unpack the bundles of shards whose folders do not have them.

    Raises:
        ObjectMissing, DigestMismatch: one is not what was sent.
        CorruptFile: see `unpack`.
    """
    sent = {plan.shard: plan.bundle_sha256 for plan in record.shards}
    for spec in shards:
        if spec.bundle.is_dir():
            continue
        key, archive = keys.bundle(sent[spec.index]), spec.bundle.with_name("bundle.tar.zst")
        found = store.get_to(key, archive)
        if found.sha256 != sent[spec.index]:
            raise DigestMismatch(f"{store.uri}: {key}: these bytes are not the bundle that was sent")
        half = spec.bundle.with_name("bundle.half")
        shutil.rmtree(half, ignore_errors=True)
        unpack(archive, half)
        archive.unlink()
        half.rename(spec.bundle)
