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
from mst.errors import CorruptFile, DigestMismatch, ObjectMissing
from mst.model.base import digest_bytes
from mst.model.fleet import DispatchRecord
from mst.model.shard import DispatchPlan
from mst.shards.archive import unpack
from mst.shards.contract import ShardSpec
from mst.shards.coordinate import PLAN
from mst.store.commit import MEND_DISPATCH
from mst.store.contract import Store
from mst.store.layout import DispatchKeys, RunKeys

_DISPATCH = re.compile(r"d[1-9]\d{0,5}")


def recall_plans(store: Store, run_keys: RunKeys, work: Path) -> None:
    """Write the plans of a run's dispatches from the store into its work folder, as if they had been sent from here.

    A dispatch without a plan is left out: nothing was sent. What the work folder has is not asked for.

    Raises:
        CorruptFile: a plan, or its record, is not as it was written.
    """
    for name in store.list_folder(run_keys.dispatches).folders:
        if _DISPATCH.fullmatch(name) and not (work / name / PLAN).is_file():
            _recall_plan(store, run_keys.dispatch(name), work / name)


def _recall_plan(store: Store, keys: DispatchKeys, folder: Path) -> None:
    place = f"{store.uri}: {keys.plan}"
    try:
        data = store.get(keys.plan)
    except ObjectMissing:
        return
    with suppress(ObjectMissing):
        record = read_record(store, keys)
        if record.plan_sha256 not in (None, digest_bytes(data)):
            raise CorruptFile(f"{place}: is not the plan that was sent; go on from the machine that sent it")
    plan = DispatchPlan.from_json(data, place)
    for shard in plan.shards:
        (folder / str(shard.index) / "results").mkdir(parents=True, exist_ok=True)
    write_atomic(folder / PLAN, data)


def read_record(store: Store, keys: DispatchKeys) -> DispatchRecord:
    """A dispatch as it was sent.

    Raises:
        ObjectMissing: it was not.
        CorruptFile: the record is not as it was written; says what mends it.
    """
    data = store.get(keys.record)
    try:
        return DispatchRecord.of_any_version(data, f"{store.uri}: {keys.record}")
    except CorruptFile as error:
        raise CorruptFile(f"{error}; {MEND_DISPATCH}") from error


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
