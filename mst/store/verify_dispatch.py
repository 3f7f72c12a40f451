"""The records of a dispatch, each by its own checksum and by what the others say of it; and units before a commit."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import TypeVar

from mst.errors import CorruptFile, FormatError, NoChecksum, ObjectMissing, WrongSize
from mst.model.base import digest_bytes
from mst.model.fleet import Closed, DispatchRecord
from mst.model.sealed import Sealed
from mst.model.shard import Unit, unit_name
from mst.store.contract import Store
from mst.store.layout import DispatchKeys
from mst.store.units import UNIT_MAX_BYTES
from mst.store.wrong import Wrong

_UNIT = re.compile(r"/dispatches/([^/]+)/[^/]+/shards/(\d+)/attempts/([^/]+)/units/([0-9a-f]{32}\.json)$")
RecordT = TypeVar("RecordT", bound=Sealed)


def verify_dispatch(store: Store, keys: DispatchKeys) -> Iterator[Wrong]:
    """Check a dispatch's records, its plan, and that its inputs are there while somebody may still need them.

    Nothing that is only not there yet is called wrong: a worker stores something after all inputs are in place.
    """
    # First: what a worker needs was there before it. An empty folder says nothing, some servers keep them.
    begun = next(iter(store.list(keys.shards)), None) is not None
    names = {info.key for info in store.list_folder(keys.folder).objects}
    said = {"run_id": keys.run.run_id, "dispatch": keys.dispatch}
    record = yield from read_record(store, keys.record, DispatchRecord, **said)
    closed = yield from read_record(store, keys.closed, Closed, **said)
    if keys.record not in names and (begun or keys.closed in names):
        yield Wrong(keys.record, "is gone: others of its dispatch are there")
    if record is not None:
        yield from _plan(store, keys, record, begun=begun)
        if begun and keys.closed not in names:
            yield from _bundles(store, keys, record)
    if closed is not None:
        yield from _committed(store, keys, closed)


def read_record(store: Store, key: str, kind: type[RecordT], **names: str) -> Generator[Wrong, None, RecordT | None]:
    """Check what is written once; the generator's value is the record, None when it is not there or wrong."""
    place = f"{store.uri}: {key}"
    try:
        data = store.get(key)
    except ObjectMissing:
        return None
    except WrongSize as error:
        yield Wrong(key, str(error))
        return None
    try:
        found = kind.from_json(data, place)
    except NoChecksum as error:
        yield Wrong(key, str(error), unproven=True)
        found = kind.of_any_version(data, place)
    except (CorruptFile, FormatError) as error:
        yield Wrong(key, str(error))
        return None
    said = {name: str(getattr(found, name)) for name in names}
    if said != names:
        yield Wrong(key, f"is that of {' '.join(said.values())}")
        return None
    return found


def is_unit(key: str) -> bool:
    """Whether a key is that of a unit on its own."""
    return _UNIT.search(key) is not None


def verify_unit(store: Store, key: str) -> list[Wrong]:
    """Check a unit that no manifest lists: by its payload's digest, and by its place, which says what it is."""
    place = _UNIT.search(key)
    assert place is not None
    try:
        data = store.get(key, max_bytes=UNIT_MAX_BYTES)
        unit = Unit.from_json(data, f"{store.uri}: {key}")
    except ObjectMissing:
        return []
    except (CorruptFile, FormatError) as error:
        return [Wrong(key, str(error))]
    # Only an intact unit is sure to have a key.
    if unit.is_intact() and unit.to_json() == data:
        said = (unit.run_id, str(unit.shard), unit.attempt, unit_name(unit.key))
        if said == place.groups():
            return []
    return [Wrong(key, "is not the unit that was stored")]


def _plan(store: Store, keys: DispatchKeys, record: DispatchRecord, *, begun: bool) -> Iterator[Wrong]:
    if record.plan_sha256 is None:
        return
    try:
        found = digest_bytes(store.get(keys.plan))
    except ObjectMissing:
        if begun:
            yield Wrong(keys.plan, "is gone: dispatch.json names it")
        return
    if found != record.plan_sha256:
        yield Wrong(keys.plan, f"has SHA-256 {found}, dispatch.json names {record.plan_sha256}")


def _bundles(store: Store, keys: DispatchKeys, record: DispatchRecord) -> Iterator[Wrong]:
    there = {info.key for info in store.list_folder(keys.bundles).objects}
    for plan in record.shards:
        if (key := keys.bundle(plan.bundle_sha256)) not in there:
            yield Wrong(key, f"is gone: shard {plan.shard} of an open dispatch reads it")


def _committed(store: Store, keys: DispatchKeys, closed: Closed) -> Iterator[Wrong]:
    for shard in closed.shards:
        key = keys.shard(shard.shard).manifest
        try:
            found = digest_bytes(store.get(key))
        except ObjectMissing:
            # Taken by a collection of garbage, when the dispatch was over for long enough.
            continue
        if found != shard.manifest_sha256:
            yield Wrong(key, f"has SHA-256 {found}, closed.json names {shard.manifest_sha256}")
