"""What nobody needs any more: leftovers of interrupted pushes and of closed dispatches. Never what a manifest lists.

Only keys that this module knows are ever removed: blobs, packs and indexes of runs; bundles, blobs, attempts and shard
manifests of dispatches. Runs' manifests, claims, `dispatch.json` and `closed.json` stay: they are small, and say what
was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from mst.errors import CorruptFile, UsageError
from mst.model.keys import RUN_ID
from mst.model.manifest import RunManifest
from mst.store.age import GC_AGE, LEAST_AGE, folder_now
from mst.store.contract import ObjectInfo, Store
from mst.store.layout import generation_of
from mst.store.listing import Listing
from mst.store.transfer import each

_RUN_OBJECT = re.compile(r"(?:blobs|packs|indexes)/[0-9a-f]{64}")
_SHARD_MANIFEST = re.compile(r"shards/\d+/manifest\.json")
_DISPATCH_OBJECT = re.compile(r"(?:bundles|blobs)/[0-9a-f]{64}|shards/\d+/(?:manifest\.json|attempts/.+)")
_AREAS = {"runs", "dispatches"}
_DISPATCH = re.compile(r"d[1-9]\d*")


@dataclass(frozen=True)
class Leftover:
    """An object that may go.

    Attributes:
        info: the object.
        why: nobody needs it.
    """

    info: ObjectInfo
    why: str


def find_leftovers(store: Store, eval_folder: str, *, age: timedelta = GC_AGE, abandon: bool = False) -> list[Leftover]:
    """What may be removed of one eval, by the store's clock, in the order in which to remove it. Writes the clock.

    Kept: what the highest manifest of any run lists (a regrade lists its source's objects); what a manifest listed
    that was replaced less than `age` ago, since somebody may still be reading it; everything younger than `age`;
    everything of a dispatch that is not closed, or was closed less than `age` ago. Not kept: what was put for a
    dispatch whose record was then taken back. Shard manifests come before what they list, so that one that is there
    never lists what is gone.

    Args:
        store: where to look.
        eval_folder: the eval's folder at the top of the store.
        age: how old a leftover must be.
        abandon: take dispatches for closed that were opened longer than `age` ago and never closed.

    Raises:
        UsageError: `age` is less than a day, within which a push relies on what it finds.
        CorruptFile: a run's highest manifest cannot be read, so nobody knows what it lists. Nothing may be removed.
        FormatError: one is of another major version.
    """
    if age < LEAST_AGE:
        raise UsageError(f"leftovers younger than {LEAST_AGE.total_seconds() / 3600:.0f} hours are never removed")
    if not _AREAS.intersection(store.list_folder(eval_folder).folders):
        return []
    now = folder_now(store, eval_folder)
    # Objects first, manifests after: what a push lists meanwhile is then seen.
    old = [info for info in store.list(eval_folder) if now - info.modified > age]
    listed = _all_listed(store, eval_folder, now=now, age=age)
    ended = _Dispatches(store, eval_folder, now=now, age=age, abandon=abandon)
    found = [
        Leftover(info, why)
        for info in old
        if info.key not in listed and (why := _why(info.key.removeprefix(f"{eval_folder}/"), ended)) is not None
    ]
    return sorted(found, key=lambda one: (_SHARD_MANIFEST.search(one.info.key) is None, one.info.key))


def _why(key: str, ended: _Dispatches) -> str | None:
    """Why nobody needs an object that no run lists; None when somebody may."""
    area, _, rest = key.partition("/")
    if area == "runs" and _RUN_OBJECT.fullmatch(rest.partition("/")[2]):
        return "no manifest lists it"
    parts = rest.split("/", 2)
    if area == "dispatches" and len(parts) == 3 and _DISPATCH_OBJECT.fullmatch(parts[2]):
        return ended.why(*parts[:2])
    return None


def remove(store: Store, leftover: Leftover) -> bool:
    """Remove a leftover unless it was written again meanwhile. Whether it is gone."""
    found = store.head(leftover.info.key)
    if found is None:
        return True
    if found.version != leftover.info.version:
        return False
    store.delete(leftover.info.key)
    return True


def _all_listed(store: Store, eval_folder: str, *, now: datetime, age: timedelta) -> set[str]:
    run_ids = filter(RUN_ID.fullmatch, store.list_folder(f"{eval_folder}/runs").folders)

    def of_run(run_id: str) -> list[str]:
        return list(_listed_by(store, f"{eval_folder}/runs/{run_id}", now=now, age=age))

    return {key for keys in each(of_run, run_ids) for key in keys}


def _listed_by(store: Store, folder: str, *, now: datetime, age: timedelta) -> Iterator[str]:
    written = {
        number: info
        for info in store.list_folder(folder).objects
        if (number := generation_of(info.key.rpartition("/")[2])) is not None
    }
    for number, info in written.items():
        replaced_at = min((other.modified for above, other in written.items() if above > number), default=None)
        if replaced_at is not None and now - replaced_at > age:
            continue
        try:
            manifest = RunManifest.from_json(store.get(info.key), f"{store.uri}: {info.key}")
        except CorruptFile:
            # Of one that was replaced nobody can read what it listed.
            if replaced_at is None:
                raise
            continue
        yield from Listing.of(manifest).objects()
        if manifest.source is not None:
            yield from Listing.of_source(manifest.eval_name, manifest.source).objects()


class _Dispatches:
    """Which dispatches are over, and long enough."""

    def __init__(self, store: Store, eval_folder: str, *, now: datetime, age: timedelta, abandon: bool) -> None:
        self._store = store
        self._folder = f"{eval_folder}/dispatches"
        self._now = now
        self._age = age
        self._abandon = abandon
        self._known: dict[tuple[str, str], str | None] = {}

    def why(self, run: str, dispatch: str) -> str | None:
        """Why nobody needs what this one holds; None when somebody may."""
        if not RUN_ID.fullmatch(run) or not _DISPATCH.fullmatch(dispatch):
            return None
        if (run, dispatch) not in self._known:
            said = self._look(f"{self._folder}/{run}/{dispatch}")
            self._known[run, dispatch] = None if said is None else f"dispatch {dispatch} of {run} {said}"
        return self._known[run, dispatch]

    def _look(self, folder: str) -> str | None:
        closed, record = (self._store.head(f"{folder}/{name}.json") for name in ("closed", "dispatch"))
        if closed is None and record is None:
            # Whoever claims its number again sends everything again, and what is young stays. A worker stores
            # nothing of a dispatch that was not sent: where one did, the record was lost, and nobody knows.
            begun = next(iter(self._store.list(f"{folder}/shards")), None)
            return "was never sent" if begun is None else None
        ended = closed or (record if self._abandon else None)
        return "is over" if ended is not None and self._now - ended.modified > self._age else None
