"""What a run spent, written again from its units in the store into a broker that lost it.

What was paid for units that never became durable is known to nobody then, and neither is what is set aside for those
under way: a budget may be passed by that much after a wipe, and by no more.
"""

from __future__ import annotations

from pydantic import ValidationError

from mst.errors import MstError
from mst.fleet.adoption import attempts_in
from mst.fleet.spend import entry_name
from mst.model.shard import Unit
from mst.model.trial import TrialRecord
from mst.shards.spend import SpendLedger, grading_spent, spend_unit, trial_spent
from mst.store.contract import Store
from mst.store.layout import RunKeys, ShardKeys
from mst.store.units import StoredUnits


def restore_spend(store: Store, run: RunKeys, spend: SpendLedger) -> int:
    """Settle every stored unit of all dispatches of a run, by attempt; returns how many. Idempotent.

    Units that cannot be read are passed over. Reads every unit once: only for runs that have a budget.

    Raises:
        StoreError, BrokerError: no answer.
    """
    restored = 0
    for dispatch in store.list_folder(run.dispatches).folders:
        keys = run.dispatch(dispatch)
        for shard in store.list_folder(keys.shards).folders:
            if shard.isdigit():
                restored += _restore_shard(store, keys.shard(int(shard)), spend)
    return restored


def _restore_shard(store: Store, keys: ShardKeys, spend: SpendLedger) -> int:
    restored = 0
    for attempt in attempts_in(store, keys):
        stored = StoredUnits(store, keys, attempt)
        for name, data in stored.read(one for one in stored.names if one.endswith(".json")):
            try:
                unit = Unit.from_json(data, name)
                tokens, cost_usd = _spent(unit)
            except (MstError, ValidationError):
                continue
            spend.settle(spend_unit(unit.key), entry_name(unit.work, attempt), tokens=tokens, cost_usd=cost_usd)
            restored += 1
    return restored


def _spent(unit: Unit) -> tuple[int, float]:
    grading = unit.trial_grading or unit.comparison_grading
    if grading is not None:
        return grading_spent(grading)
    records = [*(unit.superseded or []), unit.collected or {}]
    return trial_spent(TrialRecord.model_validate(record) for record in records)
