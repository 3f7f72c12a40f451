"""What is created once: shard manifests and regrade numbers. And what is only ever moved forward: `latest.json`."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from mst.errors import CorruptFile, ObjectMissing, PreconditionFailed, StoreUnavailable
from mst.model.keys import regrade_number, source_stem
from mst.model.manifest import RegradeClaim, ShardManifest
from mst.model.run import LatestRecord, StoredLatest
from mst.store.contract import Store
from mst.store.layout import RunKeys, ShardKeys, latest_key, runs_folder

CLAIM_TRIES = 1000
LATEST_TRIES = 16
MEND = "delete it and attach again: the shard's finished units are taken over"
MEND_DISPATCH = "delete it and attach again: what it lost is done again"
MEND_LATEST = "'mst store push RUN --repair' of the eval's newest run writes it again"

Commit = Literal["committed", "mine", "fenced"]


def shard_keys(manifest: ShardManifest) -> ShardKeys:
    """Where a shard manifest's shard lies."""
    return RunKeys(manifest.eval_name, manifest.run_id).dispatch(manifest.dispatch).shard(manifest.shard)


def commit_shard(store: Store, manifest: ShardManifest) -> Commit:
    """Create a shard's manifest. Every object that it lists must be in the store already. Idempotent.

    Returns:
        `committed`; `mine` when it was there with the same author, so that an earlier reply was lost; `fenced` when
        another author's is there, which then counts.

    Raises:
        CorruptFile: what is there cannot be read.
    """
    key = shard_keys(manifest).manifest
    try:
        store.put_if_absent(key, manifest.to_json())
    except PreconditionFailed:
        found = ShardManifest.from_json(store.get(key), f"{store.uri}: {key}")
        return "mine" if found.author == manifest.author else "fenced"
    return "committed"


def read_shard(store: Store, keys: ShardKeys) -> ShardManifest | None:
    """A shard's manifest, None while the shard is not committed.

    Raises:
        CorruptFile: it cannot be read, or belongs to another shard.
    """
    try:
        data = store.get(keys.manifest)
    except ObjectMissing:
        return None
    place = f"{store.uri}: {keys.manifest}"
    try:
        manifest = ShardManifest.from_json(data, place)
    except CorruptFile as error:
        raise CorruptFile(f"{error}; {MEND}") from error
    if shard_keys(manifest) != keys:
        raise CorruptFile(f"{place}: is the manifest of {shard_keys(manifest).folder}; {MEND}")
    return manifest


def claim_regrade(store: Store, *, eval_name: str, source: str, claimant: str, now: datetime, at_least: int = 2) -> str:
    """Take the next free number for a regrade of a run, before any other work on it.

    Args:
        store: where runs are.
        eval_name: of the run.
        source: ID of the run, or of one of its regrades.
        claimant: unique to this process.
        now: recorded in the claim.
        at_least: the lowest number wanted, so that numbers taken elsewhere stay free.

    Returns:
        The regrade's run ID. Of any number of claimants each gets its own.
    """
    stem = source_stem(source)
    taken = [
        regrade_number(name) for name in store.list_folder(runs_folder(eval_name)).folders if source_stem(name) == stem
    ]
    first = max([at_least, *(number + 1 for number in taken)])
    for number in range(first, first + CLAIM_TRIES):
        keys = RunKeys(eval_name, f"{stem}.g{number}")
        claim = RegradeClaim(run_id=keys.run_id, claimant=claimant, created_at=now)
        try:
            store.put_if_absent(keys.claim, claim.to_json())
        except PreconditionFailed:
            continue
        return keys.run_id
    raise StoreUnavailable(f"{store.uri}: no free number for a regrade of {stem} from g{first} on")


def latest_order(record: LatestRecord) -> tuple[datetime, str, int]:
    """What makes one run later than another: when it was collected, then its ID, then its regrade's number."""
    collected = datetime.fromisoformat(record.collected_at or record.created_at)
    return collected, source_stem(record.run_id), regrade_number(record.run_id)


def publish_latest(store: Store, eval_name: str, record: LatestRecord, *, repair: bool = False) -> bool:
    """Make a run the eval's latest, unless the present latest is later. Atomic against others that publish.

    Args:
        store: where.
        eval_name: the eval.
        record: of the run.
        repair: write over a `latest.json` that cannot be read, of which nobody knows what it was.

    Returns:
        Whether it is the latest now.

    Raises:
        CorruptFile: the present `latest.json` cannot be read.
    """
    key = latest_key(eval_name)
    data, order = StoredLatest(**record.to_dict()).to_json(), latest_order(record)
    for _ in range(LATEST_TRIES):
        found = store.head(key)
        try:
            if found is None:
                store.put_if_absent(key, data)
                return True
            present = store.get(key)
            if present == data:
                return True
            if _is_later(present, order, f"{store.uri}: {key}", repair=repair):
                return False
            store.replace_if_match(key, data, found.version)
        except (PreconditionFailed, ObjectMissing):
            continue
        return True
    raise StoreUnavailable(f"{store.uri}: {key} changed {LATEST_TRIES} times while it was written")


def read_latest(store: Store, eval_name: str, *, proven: bool = False) -> LatestRecord | None:
    """An eval's latest complete run, None before there is one.

    Args:
        store: where.
        eval_name: the eval.
        proven: take none without a checksum, as earlier versions wrote it.

    Raises:
        CorruptFile: `latest.json` cannot be read.
    """
    key = latest_key(eval_name)
    try:
        return _latest_record(store.get(key), f"{store.uri}: {key}", proven=proven)
    except ObjectMissing:
        return None


def _is_later(present: bytes, order: tuple[datetime, str, int], place: str, *, repair: bool) -> bool:
    try:
        return latest_order(_latest_record(present, place)) > order
    except CorruptFile:
        if repair:
            return False
        raise


def _latest_record(data: bytes, place: str, *, proven: bool = False) -> LatestRecord:
    read = StoredLatest.from_json if proven else StoredLatest.of_any_version
    try:
        return LatestRecord(**read(data, place).to_dict())
    except CorruptFile as error:
        raise type(error)(f"{error}; {MEND_LATEST}") from error
