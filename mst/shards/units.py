"""Unit files: one finished unit each, written atomically, adopted only when everything in it fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mst.config.files import read_stored, write_atomic
from mst.errors import CorruptFile, FormatError
from mst.model.base import canonical, digest_bytes
from mst.model.keys import RunId
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import Unit, UnitKey, Work, collected_payload, unit_name
from mst.model.trial import TrialRecord

UNITS = "units"
ARTIFACTS = "artifacts"


class UnitWriter:
    """Makes unit files of one attempt in a results folder. Atomic, not flushed: who counts a unit makes it durable."""

    def __init__(self, results: Path, *, work: Work, run_id: RunId, shard: int, digest: str, attempt: str | None,
                 machine: str) -> None:  # fmt: skip
        self._results = results
        self._common: dict[str, Any] = {
            "work": work,
            "run_id": run_id,
            "shard": shard,
            "bundle_digest": digest,
            "attempt": attempt,
            "machine": machine,
        }

    def graded(self, grading: TrialGrading | ComparisonGrading) -> str:
        """Write a graded unit; returns its path relative to the results folder."""
        field = "trial_grading" if isinstance(grading, TrialGrading) else "comparison_grading"
        return self._write(grading.key, {field: grading}, grading.to_dict())

    def collected(self, record: TrialRecord, key: UnitKey, superseded: Sequence[TrialRecord] = ()) -> str:
        """Write a collected trial; returns its path relative to the results folder. Artifacts were moved before."""
        payload = record.to_dict()
        earlier = [before.to_dict() for before in superseded] or None
        content = {"collected": payload, "superseded": earlier}
        return self._write(key, content, collected_payload(payload, earlier))

    def _write(self, key: UnitKey, content: dict[str, Any], payload: dict[str, Any]) -> str:
        unit = Unit(**self._common, **content, payload_digest=digest_bytes(canonical(payload)))
        relative = f"{UNITS}/{unit_name(key)}"
        write_atomic(self._results / relative, unit.to_json(), flush=False)
        return relative


def read_unit(path: Path, key: UnitKey, digest: str) -> Unit | None:
    """A unit file, if it is there and may be adopted: intact, of this key and of this bundle."""
    try:
        unit = Unit.from_json(read_stored(path), str(path))
    except (FileNotFoundError, CorruptFile, FormatError):
        return None
    return unit if unit.bundle_digest == digest and unit.is_intact() and unit.key == key else None


def finished_units(results: Path, planned: Iterable[UnitKey], digest: str) -> dict[UnitKey, Unit]:
    """The planned units that a results folder has valid files of. All in memory: see `each_finished`."""
    return {unit.key: unit for unit in each_finished(results, planned, digest)}


def each_finished(results: Path, planned: Iterable[UnitKey], digest: str) -> Iterator[Unit]:
    """The planned units that a results folder has valid files of, one after the other."""
    for key in planned:
        unit = read_unit(results / UNITS / unit_name(key), key, digest)
        if unit is not None:
            yield unit


def unit_files(results: Path) -> frozenset[str]:
    """Names of the unit files that are there, valid or not."""
    try:
        return frozenset(path.name for path in (results / UNITS).iterdir())
    except FileNotFoundError:
        return frozenset()
