"""Units of a dispatch that lie in the store: which may be adopted, and which of several wins.

Used by the next attempt at a shard (takeover) and by the coordinator that closes a shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mst.config.files import write_atomic
from mst.errors import CorruptFile, DigestMismatch, FormatError, ObjectMissing
from mst.model.base import digest_bytes
from mst.model.manifest import ManifestFile, ShardManifest
from mst.model.shard import Unit, UnitKey, unit_name
from mst.shards.units import ARTIFACTS, UNITS
from mst.store.contract import Store
from mst.store.layout import ShardKeys

THREADS = 16
UNIT_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Adopted:
    """A unit that counts, and the files that belong to it."""

    key: UnitKey
    attempt: str
    unit: Unit
    data: bytes
    files: tuple[ManifestFile, ...]


def attempts_in(store: Store, keys: ShardKeys) -> list[str]:
    """IDs of the attempts that left something in the store, by number, then ID."""
    return sorted(store.list_folder(keys.attempts).folders, key=rank)


def rank(attempt: str) -> tuple[int, str]:
    """Order of attempts: the lower number first, then the lower ID."""
    number, _, token = attempt.partition("-")
    return (int(number) if number.isdigit() else 2**31, token)


def stored_names(store: Store, keys: ShardKeys, planned: Iterable[UnitKey]) -> set[str]:
    """Names of the planned units of which some attempt left an object, not looked into."""
    names = {unit_name(key) for key in planned}
    return {
        name
        for attempt in attempts_in(store, keys)
        for info in store.list_folder(keys.units(attempt)).objects
        if (name := info.key.rsplit("/", 1)[1]) in names
    }


def adoptable(store: Store, keys: ShardKeys, planned: Iterable[UnitKey], digest: str) -> dict[UnitKey, Adopted]:
    """The best stored unit of each planned key: a verdict beats an error, then the lowest attempt number and ID.

    A unit counts only if it is intact, its key is planned, and it was made from this bundle; others are passed over.
    """
    by_name = {unit_name(key): key for key in planned}
    best: dict[UnitKey, Adopted] = {}
    with ThreadPoolExecutor(THREADS, thread_name_prefix="mst-adopt") as pool:
        for attempt in attempts_in(store, keys):
            listed = {info.key.rsplit("/", 1)[1]: info for info in store.list_folder(keys.units(attempt)).objects}
            wanted = [name for name in listed if name in by_name]
            found = pool.map(lambda name: _read(store, keys, attempt, by_name[name], digest), wanted)  # noqa: B023 - used at once
            for one in found:
                if one is not None and _has_artifacts(one, set(listed)) and _beats(one, best.get(one.key)):
                    best[one.key] = one
    return best


def _read(store: Store, keys: ShardKeys, attempt: str, key: UnitKey, digest: str) -> Adopted | None:
    object_key = keys.unit(attempt, unit_name(key))
    try:
        data = store.get(object_key, max_bytes=UNIT_MAX_BYTES)
        unit = Unit.from_json(data, object_key)
    except (ObjectMissing, CorruptFile, FormatError):
        return None
    if unit.bundle_digest != digest or not unit.is_intact() or unit.key != key:
        return None
    own = ManifestFile(path=f"{UNITS}/{unit_name(key)}", size=len(data), sha256=digest_bytes(data), object=object_key)
    return Adopted(key=key, attempt=attempt, unit=unit, data=data, files=(own, *_artifacts(keys, attempt, unit)))


def _artifacts(keys: ShardKeys, attempt: str, unit: Unit) -> Iterator[ManifestFile]:
    listed = (unit.collected or {}).get("artifactFiles", [])
    for sha256, size in sorted({(file["sha256"], file["size"]) for file in listed}):
        yield ManifestFile(path=f"{ARTIFACTS}/{sha256}", size=size, sha256=sha256, object=keys.unit(attempt, sha256))


def _has_artifacts(found: Adopted, listed: set[str]) -> bool:
    return all(file.path.rsplit("/", 1)[1] in listed for file in found.files[1:])


def _beats(found: Adopted, present: Adopted | None) -> bool:
    return present is None or (not is_verdict(present.unit) and is_verdict(found.unit))


def is_verdict(unit: Unit) -> bool:
    """Whether a unit says something about the program under test, rather than about what broke."""
    grading = unit.trial_grading or unit.comparison_grading
    if grading is not None:
        return not grading.errors
    return not (unit.collected or {}).get("infrastructureError", False)


def bring(store: Store, adopted: Mapping[UnitKey, Adopted], results: Path) -> None:
    """Put adopted units and their artifacts into a results folder, as if they had been made there."""
    for one in adopted.values():
        for file in one.files[1:]:
            fetch_file(store, file, results)
        write_atomic(results / one.files[0].path, one.data)


def bring_manifest(store: Store, manifest: ShardManifest, results: Path) -> list[str]:
    """Fetch everything that a shard's manifest lists into a results folder, every byte checked.

    Returns:
        What could not be had, since its object is gone or holds other bytes; each names its object. Its units count as
        missing, so that a resume can do them again.
    """

    def fetch(file: ManifestFile) -> str | None:
        try:
            fetch_file(store, file, results)
        except (DigestMismatch, ObjectMissing) as error:
            return str(error)
        return None

    with ThreadPoolExecutor(THREADS, thread_name_prefix="mst-fetch") as pool:
        return [fault for fault in pool.map(fetch, manifest.files) if fault is not None]


def fetch_file(store: Store, file: ManifestFile, results: Path) -> None:
    """Fetch one file unless it is there already. Atomic.

    Raises:
        DigestMismatch: the object holds other bytes.
    """
    target = results / file.path
    if target.is_file() and target.stat().st_size == file.size:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    assert file.object is not None, "files of a shard name their object"
    temporary = target.with_name(f".{target.name}.fetch")
    found = store.get_to(file.object, temporary)
    if (found.size, found.sha256) != (file.size, file.sha256):
        temporary.unlink()
        raise DigestMismatch(f"bytes are not those that the manifest lists: {store.uri}/{file.object}")
    temporary.replace(target)
