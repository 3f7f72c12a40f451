"""Sending out a dispatch. Order: `dispatch.json` (claims the number), bundles, grant, ledger, messages.

Whatever dies in between leaves nothing that runs: workers start only on a message, and a message comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mst import __version__
from mst.config.files import hash_file
from mst.errors import PreconditionFailed, UsageError
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.grants import GRANT_GRACE, GrantSlots, GrantTarget, seal
from mst.fleet.host import Send, send_shard
from mst.fleet.keys import SigningKey
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_records import EntrySeed, Head
from mst.fleet.signing import sign
from mst.model.fleet import DispatchRecord, Envelope, ShardLimits, ShardPlan, Signed
from mst.shards.archive import pack
from mst.shards.contract import ShardSpec
from mst.store.contract import Store
from mst.store.layout import DispatchKeys, RunKeys
from mst.store.uri import object_uri


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a coordinator sends with.

    Attributes:
        recipients: age public keys that secrets are sealed to.
        broker: its URL without a password, for the record.
        embedded: the broker ends with this process.
    """

    store: Store
    book: DispatchBook
    ledger: Ledger
    grants: GrantSlots
    send: Send
    key: SigningKey
    recipients: tuple[str, ...]
    broker: str
    embedded: bool
    queue: str
    limits: ShardLimits
    deadline: timedelta
    plugins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sent:
    """A dispatch that is on its way."""

    record: DispatchRecord
    head: Head
    keys: DispatchKeys
    target: GrantTarget


def dispatch_keys(spec: ShardSpec) -> DispatchKeys:
    """Where a shard's dispatch lies in the store."""
    return RunKeys(spec.eval_name, spec.run_id).dispatch(spec.dispatch)


def send_dispatch(desk: Desk, shards: Sequence[ShardSpec], secrets: Mapping[str, str]) -> Sent:
    """Send all shards of a dispatch.

    Raises:
        UsageError: another coordinator has sent this dispatch already.
        StoreError, BrokerError: no answer.
    """
    keys = dispatch_keys(shards[0])
    archives = {spec.index: _archive(spec) for spec in shards}
    record = _record(desk, shards, archives, secrets)
    try:
        desk.store.put_if_absent(keys.record, record.to_json())
    except PreconditionFailed:
        raise UsageError(
            f"{record.scope}: another coordinator has sent this dispatch; go on with 'mst attach {record.run_id}'"
        ) from None
    for plan in record.shards:
        desk.store.put(keys.bundle(plan.bundle_sha256), archives[plan.shard], sha256=plan.bundle_sha256)
        archives[plan.shard].unlink()
    target = GrantTarget(record.run_id, record.dispatch, record.work, record.eval_name)
    if record.grant_slot is not None:
        _grant(desk, record, target, secrets)
    head = head_of(record, object_uri(desk.store, keys.folder))
    envelopes = {plan.shard: envelope_of(desk.store, keys, record, plan) for plan in record.shards}
    signed = {shard: sign(envelope, desk.key) for shard, envelope in envelopes.items()}
    desk.book.write_dispatch(head, _seeds(record, signed))
    for shard, envelope in envelopes.items():
        send_shard(desk.send, desk.ledger, signed[shard], envelope, 1)
    return Sent(record, head, keys, target)


def _archive(spec: ShardSpec) -> Path:
    path = spec.bundle.with_name("bundle.tar.zst")
    pack(spec.bundle, path)
    return path


def _record(
    desk: Desk, shards: Sequence[ShardSpec], archives: Mapping[int, Path], secrets: Mapping[str, str]
) -> DispatchRecord:
    first = shards[0]
    names = sorted(set(first.secrets) & set(secrets))
    target = GrantTarget(first.run_id, first.dispatch, first.work, first.eval_name)
    now = datetime.now(UTC)
    return DispatchRecord(
        run_id=first.run_id,
        dispatch=first.dispatch,
        work=first.work,
        eval_name=first.eval_name,
        created=now,
        deadline=now + desk.deadline,
        count=first.count,
        shards=[_plan(spec, archives[spec.index]) for spec in shards],
        limits=desk.limits,
        queue=desk.queue,
        broker=desk.broker,
        embedded=desk.embedded,
        mst=__version__,
        plugins=dict(desk.plugins),
        secrets=names,
        grant_slot=target.slot if names else None,
        key_id=desk.key.key_id,
        recipients=list(desk.recipients) if names else [],
    )


def _plan(spec: ShardSpec, archive: Path) -> ShardPlan:
    return ShardPlan(
        shard=spec.index,
        case_ids=sorted({key.case_id for key in spec.planned}),
        units=len(spec.planned),
        bundle_sha256=hash_file(archive),
        bundle_digest=spec.digest,
        bundle_bytes=archive.stat().st_size,
    )


def _grant(desk: Desk, record: DispatchRecord, target: GrantTarget, secrets: Mapping[str, str]) -> None:
    sealed = seal(
        target,
        {name: secrets[name] for name in record.secrets},
        issue=1,
        expires_at=record.deadline,
        recipients=desk.recipients,
        key=desk.key,
    )
    desk.grants.put(target, sealed, issue=1, forget_at=record.deadline + GRANT_GRACE)


def head_of(record: DispatchRecord, dispatch_uri: str) -> Head:
    """What the ledger needs to know of a dispatch."""
    return Head(
        run_id=record.run_id,
        dispatch=record.dispatch,
        work=record.work,
        eval_name=record.eval_name,
        queue=record.queue,
        deadline=record.deadline,
        limits=record.limits,
        dispatch_uri=dispatch_uri,
    )


def envelope_of(store: Store, keys: DispatchKeys, record: DispatchRecord, plan: ShardPlan) -> Envelope:
    """The envelope of one shard. Made again from the same record, it is the same."""
    return Envelope(
        run_id=record.run_id,
        dispatch=record.dispatch,
        work=record.work,
        shard=plan.shard,
        count=record.count,
        eval_name=record.eval_name,
        queue=record.queue,
        bundle_uri=object_uri(store, keys.bundle(plan.bundle_sha256)),
        bundle_sha256=plan.bundle_sha256,
        bundle_digest=plan.bundle_digest,
        results_uri=object_uri(store, keys.shard(plan.shard).folder),
        limits=record.limits,
        deadline=record.deadline,
        mst=record.mst,
        plugins=record.plugins,
        grant_slot=record.grant_slot,
        key_id=record.key_id,
    )


def _seeds(record: DispatchRecord, signed: Mapping[int, Signed]) -> list[EntrySeed]:
    return [EntrySeed(shard=plan.shard, units=plan.units, envelope=signed[plan.shard]) for plan in record.shards]
