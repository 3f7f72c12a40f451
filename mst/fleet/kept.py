"""Finished units of an attempt whose store stayed away: kept on this machine for the next attempt here at that shard.

They were paid for. Another machine that takes the shard meanwhile does them again; what is in the store first counts.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path

from mst.config.files import flush_files
from mst.config.moving import copy_whole
from mst.errors import InfrastructureError
from mst.model.fleet import ShardRef
from mst.model.shard import Unit, UnitKey, unit_name
from mst.shards.contract import ShardSpec, UnitDone
from mst.shards.units import ARTIFACTS, UNITS, read_unit

KEPT_MAX = 8
"""Shards whose units one worker keeps; the oldest go first."""

Parcel = tuple[UnitDone, Sequence[Path]]
"""A unit and its files, its own first: what `Delivery.take` takes."""


class KeptUnits:
    """Results folders of attempts that were given back, below a worker's scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self._root = scratch / "kept"

    def keep(self, ref: ShardRef, results: Path) -> None:
        """Move a results folder here, in place of an older one of the shard. A disk that refuses loses only time."""
        with suppress(OSError, InfrastructureError):
            self._root.mkdir(mode=0o700, exist_ok=True)
            shutil.rmtree(self._root / str(ref), ignore_errors=True)
            flush_files(path for path in results.rglob("*") if path.is_file())
            results.rename(self._root / str(ref))
            folders = sorted(self._root.iterdir(), key=lambda path: path.stat().st_mtime)
            for old in folders[:-KEPT_MAX]:
                shutil.rmtree(old, ignore_errors=True)

    def take(self, ref: ShardRef, spec: ShardSpec, have: Container[UnitKey]) -> list[Parcel]:
        """Move what was kept of a shard into its new results folder, and forget the rest.

        Args:
            have: units that the store has already.

        Returns:
            The units that were taken: sound ones of this bundle's plan, with all of their artifacts.
        """
        kept = self._root / str(ref)
        if not kept.is_dir():
            return []
        parcels: list[Parcel] = []
        for key in spec.planned:
            unit = None if key in have else read_unit(kept / UNITS / unit_name(key), key, spec.digest)
            if unit is not None and all((kept / path).is_file() for path in _artifacts(unit)):
                paths = [_move(kept, spec.results, path) for path in (*_artifacts(unit), f"{UNITS}/{unit_name(key)}")]
                parcels.append((_done(spec, unit), paths[::-1]))
        shutil.rmtree(kept, ignore_errors=True)
        return parcels


def _artifacts(unit: Unit) -> list[str]:
    return [f"{ARTIFACTS}/{sha256}" for sha256 in sorted(unit.artifacts())]


def _move(kept: Path, results: Path, relative: str) -> Path:
    target = results / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    # an artifact may belong to several units
    if not target.exists():
        copy_whole(kept / relative, target)
    return target


def _done(spec: ShardSpec, unit: Unit) -> UnitDone:
    grading = unit.trial_grading or unit.comparison_grading
    if grading is None:
        broke = (unit.collected or {}).get("infrastructureError", False)
        return UnitDone(shard=spec.index, key=unit.key, status="infra" if broke else "collected", passed=None)
    return UnitDone(shard=spec.index, key=unit.key, status="failed" if grading.errors else "graded", passed=None)
