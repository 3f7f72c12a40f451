"""Sending out a dispatch. Order: `dispatch.json` (claims the number), bundles, grant, ledger, messages.

Whatever dies in between leaves nothing that runs: workers start only on a message, and a message comes last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from mst import __version__
from mst.config.files import hash_file
from mst.errors import BrokerError, DispatchTaken, PreconditionFailed, RunnerError, StoreError
from mst.fleet.adoption import attempts_in, rank, stored_names
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.grants import GRANT_GRACE, GrantSlots, GrantTarget, seal
from mst.fleet.host import Send, send_shard
from mst.fleet.keys import SigningKey
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_records import EntrySeed, Head
from mst.fleet.sessions import ShardSessions
from mst.fleet.signing import Verifier, sign
from mst.fleet.spend_restore import restore_spend
from mst.fleet.tokens import refresh_key_of
from mst.model.base import digest_bytes
from mst.model.fleet import (
    DispatchRecord,
    Envelope,
    ShardLimits,
    ShardPlan,
    Signed,
    SignerEntry,
    TrustedSigners,
    grant_slot,
)
from mst.shards.archive import pack
from mst.shards.bundle import Bundle
from mst.shards.contract import ShardSpec
from mst.shards.coordinate import plan_record
from mst.shards.spend import SpendLedger
from mst.store.commit import read_shard
from mst.store.contract import Store
from mst.store.layout import DispatchKeys, RunKeys, ShardKeys
from mst.store.uri import object_uri

BROKER_PATIENCE_S = 60.0
"""How long a broker may be silent while a dispatch is being sent."""
PACE = threading.Event()
DoneT = TypeVar("DoneT")


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a coordinator sends with.

    Attributes:
        recipients: age public keys that secrets are sealed to.
        broker: its URL without a password, for the record.
        embedded: the broker ends with this process.
        expires: when single secrets expire.
        spend: a run's spending, by run ID; restored after a wipe where there is a budget.
        sessions: makes credentials for the store for each shard; without it workers use their own.
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
    expires: Mapping[str, datetime] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    spend: Callable[[str], SpendLedger] | None = None
    sessions: ShardSessions | None = None


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
        RunnerError: broker or store failed before anything was sent; nothing is left that could run.
        StoreError, BrokerError: the same, and the claim of the number could not be taken back.
    """
    keys = dispatch_keys(shards[0])
    archives = {spec.index: _archive(spec) for spec in shards}
    plan = plan_record(shards).to_json()
    record = _record(desk, shards, archives, secrets, plan_sha256=digest_bytes(plan))
    try:
        desk.store.put_if_absent(keys.record, record.to_json())
    except PreconditionFailed:
        raise DispatchTaken(
            f"{record.scope}: another coordinator has sent this dispatch; go on with 'mst attach {record.run_id}'",
            record.dispatch,
        ) from None
    try:
        # over that of a dispatch with this number whose claim was taken back
        desk.store.put(keys.plan, plan)
        head, signed = _prepare(desk, record, keys, archives, secrets)
    except (StoreError, BrokerError) as error:
        desk.store.delete(keys.record)
        raise RunnerError(f"nothing was sent: {error}") from error
    # what the broker does not take now is sent by a janitor
    with suppress(BrokerError):
        for envelope in signed.values():
            send_shard(desk.send, desk.ledger, envelope, Envelope.model_validate(envelope.payload), 1)
    return Sent(record, head, keys, target_of(record))


def _prepare(
    desk: Desk, record: DispatchRecord, keys: DispatchKeys, archives: Mapping[int, Path], secrets: Mapping[str, str]
) -> tuple[Head, dict[int, Signed]]:
    """Everything that must be there before the first message: bundles, grant, ledger."""
    for plan in record.shards:
        desk.store.put(keys.bundle(plan.bundle_sha256), archives[plan.shard], sha256=plan.bundle_sha256)
        archives[plan.shard].unlink()
    if record.grant_slot is not None:
        patiently(lambda: _grant(desk, record, secrets, issue=1))
    _open_sessions(desk, record, keys)
    head = head_of(record, object_uri(desk.store, keys.folder))
    signed = _envelopes(desk, record, keys)
    seeds = [EntrySeed(shard=plan.shard, units=plan.units, envelope=signed[plan.shard]) for plan in record.shards]
    patiently(lambda: desk.book.write_dispatch(head, seeds))
    return head, signed


def patiently(do: Callable[[], DoneT], *, within_s: float = BROKER_PATIENCE_S, pause_s: float = 1.0) -> DoneT:
    """Do something that may be repeated until the broker answers: bundles that took minutes are not thrown away.

    Raises:
        BrokerError: it did not answer within the time.
    """
    until = time.monotonic() + within_s
    while True:
        try:
            return do()
        except BrokerError:
            if time.monotonic() + pause_s >= until:
                raise
            PACE.wait(pause_s)


def write_again(desk: Desk, record: DispatchRecord, shards: Sequence[ShardSpec], secrets: Mapping[str, str]) -> None:
    """Write a dispatch into a broker that lost it, from the record and what is in the store; seal its grant again.

    Nothing is sent yet: attempts that still run come back at their next renewal, and janitors send the rest after half
    a lease. Idempotent.

    Raises:
        StoreError, BrokerError: no answer.
    """
    keys = dispatch_keys(shards[0])
    specs = {spec.index: spec for spec in shards}
    signed = _envelopes(desk, record, keys)
    if record.grant_slot is not None:
        issue = desk.grants.next_issue(target_of(record), Verifier(TrustedSigners(signers=[_own_entry(desk)])))
        _grant(desk, record, secrets, issue=issue)
    _open_sessions(desk, record, keys)
    if desk.spend is not None and record.budgeted:
        restore_spend(desk.store, keys.run, desk.spend(record.run_id))
    seeds = [
        _seed_from_store(desk.store, keys.shard(plan.shard), plan, specs[plan.shard], signed[plan.shard])
        for plan in record.shards
    ]
    head = head_of(record, object_uri(desk.store, keys.folder))
    desk.book.write_dispatch(head, seeds)
    for plan in record.shards:
        desk.ledger.mark_sent(head.ref(plan.shard))


def _open_sessions(desk: Desk, record: DispatchRecord, keys: DispatchKeys) -> None:
    if desk.sessions is not None and record.store_sessions:
        desk.sessions.issue(target_of(record), keys, [plan.shard for plan in record.shards])


def _own_entry(desk: Desk) -> SignerEntry:
    return desk.key.entry(evals=["*"], queues=["*"])


def _seed_from_store(store: Store, keys: ShardKeys, plan: ShardPlan, spec: ShardSpec, envelope: Signed) -> EntrySeed:
    manifest = read_shard(store, keys)
    attempts = attempts_in(store, keys)
    return EntrySeed(
        shard=plan.shard,
        units=plan.units,
        envelope=envelope,
        attempt_floor=max((rank(attempt)[0] for attempt in attempts), default=0),
        done=plan.units if manifest is not None else len(stored_names(store, keys, spec.planned)),
        committed=manifest is not None,
    )


def _envelopes(desk: Desk, record: DispatchRecord, keys: DispatchKeys) -> dict[int, Signed]:
    return {plan.shard: sign(envelope_of(desk.store, keys, record, plan), desk.key) for plan in record.shards}


def target_of(record: DispatchRecord) -> GrantTarget:
    """What a dispatch's grant is for."""
    return GrantTarget(record.run_id, record.dispatch, record.work, record.eval_name)


def _archive(spec: ShardSpec) -> Path:
    path = spec.bundle.with_name("bundle.tar.zst")
    pack(spec.bundle, path)
    return path


def _record(
    desk: Desk,
    shards: Sequence[ShardSpec],
    archives: Mapping[int, Path],
    secrets: Mapping[str, str],
    *,
    plan_sha256: str,
) -> DispatchRecord:
    first = shards[0]
    names = sorted(set(first.secrets) & set(secrets))
    slot = grant_slot(first.run_id, first.dispatch, first.work)
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
        grant_slot=slot if names else None,
        budgeted=bool(Bundle(first.bundle).record.plan.budget),
        store_sessions=desk.sessions is not None,
        key_id=desk.key.key_id,
        recipients=list(desk.recipients) if names else [],
        plan_sha256=plan_sha256,
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


def _grant(desk: Desk, record: DispatchRecord, secrets: Mapping[str, str], *, issue: int) -> None:
    target = target_of(record)
    sealed = seal(
        target,
        {name: secrets[name] for name in record.secrets},
        issue=issue,
        expires_at=record.deadline,
        recipients=desk.recipients,
        key=desk.key,
        refresh_key=refresh_key_of(desk.key, record.scope),
        expires=desk.expires,
    )
    desk.grants.put(target, sealed, issue=issue, forget_at=record.deadline + GRANT_GRACE)


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
        store_session=record.store_sessions,
        key_id=record.key_id,
    )
