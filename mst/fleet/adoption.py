"""Units of a dispatch that lie in the store: which may be adopted, and which of several wins.

Used by the next attempt at a shard (takeover) and by the coordinator that closes a shard.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from mst.config.files import write_atomic
from mst.errors import CorruptFile, FormatError
from mst.model.manifest import ManifestFile, Pack
from mst.model.shard import Unit, UnitKey, unit_name
from mst.shards.units import ARTIFACTS, UNITS
from mst.store.contract import Store
from mst.store.layout import ShardKeys
from mst.store.listing import Listing
from mst.store.units import StoredUnits, fetch_listed


@dataclass(frozen=True)
class Adopted:
    """A unit that counts.

    Attributes:
        attempt: whose it is.
        verdict: see `is_verdict`.
        artifacts: names of the files that belong to it.
    """

    attempt: str
    verdict: bool
    artifacts: tuple[str, ...]


def attempts_in(store: Store, keys: ShardKeys) -> list[str]:
    """IDs of the attempts that left something in the store, by number, then ID."""
    return sorted(store.list_folder(keys.attempts).folders, key=rank)


def rank(attempt: str) -> tuple[int, str]:
    """Order of attempts: the lower number first, then the lower ID."""
    number, _, token = attempt.partition("-")
    return (int(number) if number.isdigit() else 2**31, token)


def stored_names(store: Store, keys: ShardKeys, planned: Iterable[UnitKey]) -> set[str]:
    """Names of the planned units that some attempt left in the store, not looked into."""
    names = {unit_name(key) for key in planned}
    return {name for attempt in attempts_in(store, keys) for name in StoredUnits(store, keys, attempt).names & names}


class Adoption:
    """The best stored unit of each planned key: a verdict beats an error, then the lowest attempt number and ID.

    A unit counts only if it is intact, its key is planned, it was made from this bundle, and all of its artifacts are
    there; others are passed over.

    Attributes:
        units: what was adopted.
    """

    def __init__(
        self, store: Store, keys: ShardKeys, planned: Iterable[UnitKey], digest: str, *, into: Path | None = None
    ) -> None:
        """Read everything once.

        Args:
            store: where the units are.
            keys: of the shard.
            planned: its units.
            digest: of its bundle.
            into: a results folder that gets the adopted units and their artifacts, as if they had been made there.
        """
        self.units: dict[UnitKey, Adopted] = {}
        self._store = store
        self._keys = keys
        self._by_name = {unit_name(key): key for key in planned}
        self._digest = digest
        self._stored: dict[str, StoredUnits] = {}
        for attempt in attempts_in(store, keys):
            self._look_into(attempt, into)
        if into is not None:
            self._bring_artifacts(into)

    def _look_into(self, attempt: str, into: Path | None) -> None:
        stored = self._stored[attempt] = StoredUnits(self._store, self._keys, attempt)
        for name, data in stored.read(self._by_name):
            key = self._by_name[name]
            unit = self._accept(key, data)
            if unit is None or not all(stored.holds(sha256, size) for sha256, size in unit.artifacts().items()):
                continue
            present, verdict = self.units.get(key), is_verdict(unit)
            if present is None or (verdict and not present.verdict):
                self.units[key] = Adopted(attempt, verdict, tuple(sorted(unit.artifacts())))
                if into is not None:
                    write_atomic(into / UNITS / name, data)

    def _accept(self, key: UnitKey, data: bytes) -> Unit | None:
        try:
            unit = Unit.from_json(data, unit_name(key))
        except (CorruptFile, FormatError):
            return None
        return unit if unit.bundle_digest == self._digest and unit.is_intact() and unit.key == key else None

    def _bring_artifacts(self, into: Path) -> None:
        """Those of adopted units; a unit of which one can't be had is not adopted after all."""
        files, packs = self._listed(set(), units=False)
        fetch_listed(self._store, Listing(self._keys.dispatch.run, files, packs), into)
        for key, one in list(self.units.items()):
            if not all((into / ARTIFACTS / name).is_file() for name in one.artifacts):
                del self.units[key]
                (into / UNITS / unit_name(key)).unlink()

    def listed(self, besides: AbstractSet[str] = frozenset()) -> tuple[list[ManifestFile], list[Pack]]:
        """The adopted units and their artifacts as a manifest lists them, each path once.

        A shorter index of a pack is put when only some of its files are listed.

        Args:
            besides: paths that the manifest lists already.
        """
        return self._listed(set(besides), units=True)

    def _listed(self, paths: set[str], *, units: bool) -> tuple[list[ManifestFile], list[Pack]]:
        files, packs = list[ManifestFile](), list[Pack]()
        by_attempt: dict[str, list[str]] = {}
        for key, one in self.units.items():
            names = by_attempt.setdefault(one.attempt, [])
            own = [f"{UNITS}/{unit_name(key)}"] if units else []
            for path in (*own, *(f"{ARTIFACTS}/{name}" for name in one.artifacts)):
                if path not in paths:
                    paths.add(path)
                    names.append(path.rpartition("/")[2])
        for attempt, names in by_attempt.items():
            more_files, more_packs = self._stored[attempt].listed(names)
            files += more_files
            packs += more_packs
        return sorted(files, key=lambda file: file.path), packs


def is_verdict(unit: Unit) -> bool:
    """Whether a unit says something about the program under test, rather than about what broke."""
    grading = unit.trial_grading or unit.comparison_grading
    if grading is not None:
        return not grading.errors
    return not (unit.collected or {}).get("infrastructureError", False)
