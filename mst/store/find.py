"""Which runs a store holds: a run is there when a valid manifest of it is."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from mst.errors import AmbiguousRun, CorruptFile, FormatError, ObjectMissing, UsageError
from mst.model.base import digest_bytes
from mst.model.keys import RUN_ID, run_order, segment, short_id
from mst.model.manifest import RunManifest
from mst.store.commit import read_latest
from mst.store.contract import Store
from mst.store.layout import RunKeys, generation_of
from mst.store.transfer import each

_LOG = logging.getLogger(__name__)
_CUT = re.compile(r".{150,}~[0-9a-f]{16}")


@dataclass(frozen=True)
class StoredRun:
    """A run that a store holds, found without reading its manifest.

    Attributes:
        eval_name: of the run.
        run_id: of the run.
        generation: the highest there is.
    """

    eval_name: str
    run_id: str
    generation: int


@dataclass(frozen=True)
class FoundManifest:
    """A run's manifest with the digest of its bytes."""

    manifest: RunManifest
    sha256: str


def generations(store: Store, keys: RunKeys) -> list[int]:
    """The generations of a run's manifest, highest first; empty when the run is not there."""
    names = (info.key.rpartition("/")[2] for info in store.list_folder(keys.folder).objects)
    return sorted((number for name in names if (number := generation_of(name)) is not None), reverse=True)


def read_run(store: Store, keys: RunKeys) -> FoundManifest | None:
    """The highest valid manifest of a run, None when it has no manifest at all.

    A generation that can't be read is passed over for a lower one with a warning in the log.

    Raises:
        CorruptFile: there are manifests, and none is valid; says what is wrong with the highest, and what mends it.
        FormatError: the highest is of another major version.
    """
    faults: list[CorruptFile] = []
    for generation in generations(store, keys):
        try:
            found = read_generation(store, keys, generation)
        except CorruptFile as error:
            faults.append(error)
        except ObjectMissing:
            continue
        else:
            for fault in faults:
                _LOG.warning("passed over a manifest: %s", fault)
            return found
    if faults:
        mend = f"'mst store push {keys.run_id} --repair' writes it again from a results root that has the run"
        raise CorruptFile(f"{faults[0]}; {mend}") from faults[0]
    return None


def _warn(error: CorruptFile) -> None:
    _LOG.warning("passed over an eval: %s", error)


def list_evals(
    store: Store,
    eval_name: str | None = None,
    *,
    areas: Sequence[str] = ("runs",),
    nameless: Callable[[CorruptFile], None] = _warn,
) -> Iterator[tuple[str, list[str]]]:
    """The name of every eval, or of one, with the IDs of its runs in order, whether they have a manifest or not.

    Args:
        store: where to look.
        eval_name: only this eval.
        areas: folders of an eval that tell of runs: `runs`, `dispatches`.
        nameless: told of an eval whose name nothing tells, so that its runs cannot be listed; by default a warning in
            the log. Only a name too long for a folder can be lost, with every manifest of the eval.
    """
    folders = [segment(eval_name)] if eval_name is not None else sorted(store.list_folder("").folders)
    for folder in folders:
        names = {name for area in areas for name in store.list_folder(f"{folder}/{area}").folders}
        run_ids = sorted(filter(RUN_ID.fullmatch, names), key=run_order)
        name = eval_name if eval_name is not None else _eval_name(store, folder, run_ids)
        if name is None:
            place = f"{store.uri}: {folder}/runs"
            nameless(CorruptFile(f"{place}: no manifest can be read, so what the eval is called is not known"))
            continue
        yield name, run_ids


def list_runs(
    store: Store,
    eval_name: str | None = None,
    *,
    meant: Callable[[str], bool] = lambda _: True,
    nameless: Callable[[CorruptFile], None] = _warn,
) -> Iterator[StoredRun]:
    """Every run of one eval, or of all, in order of eval, run and number of the grading. One request for each.

    Args:
        store: where to look.
        eval_name: only this eval.
        meant: asked of each run ID whether it is wanted; of others nothing is read.
        nameless: see `list_evals`.
    """
    for name, run_ids in list_evals(store, eval_name, nameless=nameless):
        keys = (RunKeys(name, run_id) for run_id in run_ids if meant(run_id))
        for key, found in each(lambda one: (one, generations(store, one)), keys):
            if found:
                yield StoredRun(name, key.run_id, found[0])


def find_run(store: Store, ref: str, eval_name: str | None = None) -> StoredRun:
    """The run that a person means.

    Args:
        store: where to look.
        ref: a full run ID, its short form (6 hex digits, `.g<n>` for a regrade) or `latest`.
        eval_name: narrows the search; needed for `latest` when the store holds several evals.

    Raises:
        UsageError: no such run.
        AmbiguousRun: several; lists them.
    """
    if ref == "latest":
        return _latest(store, eval_name)
    found = list(list_runs(store, eval_name, meant=lambda run_id: ref in (run_id, short_id(run_id))))
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"{store.uri} has no run {ref!r}; `mst store ls` lists its runs")
    several = ", ".join(f"{run.eval_name}/{run.run_id}" for run in found[:10])
    raise AmbiguousRun(f"{ref!r} means several runs in {store.uri}: {several}; give the full ID")


def _latest(store: Store, eval_name: str | None) -> StoredRun:
    names = [eval_name] if eval_name is not None else [name for name, run_ids in list_evals(store) if run_ids]
    records = [(name, record) for name in names if (record := read_latest(store, name)) is not None]
    if len(records) > 1:
        several = ", ".join(name for name, _ in records[:10])
        raise AmbiguousRun(f"{store.uri} holds several evals: {several}; give a run ID (`mst store ls` lists them)")
    if not records:
        raise UsageError(f"{store.uri} has no latest run" + (f" of {eval_name}" if eval_name else ""))
    name, record = records[0]
    found = generations(store, RunKeys(name, record.run_id))
    if not found:
        raise CorruptFile(f"{store.uri}: latest.json of {name} names {record.run_id}, which has no manifest")
    return StoredRun(name, record.run_id, found[0])


def read_generation(store: Store, keys: RunKeys, generation: int) -> FoundManifest:
    """One generation of a run's manifest.

    Raises:
        ObjectMissing: there is none.
        CorruptFile: it cannot be read, or is another's.
        FormatError: it is of another major version.
    """
    key = keys.manifest(generation)
    data, place = store.get(key), f"{store.uri}: {key}"
    manifest = RunManifest.from_json(data, place)
    claimed = (segment(manifest.eval_name), manifest.run_id, manifest.generation)
    if claimed != (segment(keys.eval_name), keys.run_id, generation):
        raise CorruptFile(f"{place}: is generation {manifest.generation} of {manifest.eval_name}/{manifest.run_id}")
    return FoundManifest(manifest, digest_bytes(data))


def _eval_name(store: Store, folder: str, run_ids: Iterable[str]) -> str | None:
    """The name that an eval's folder is made of; None when nothing tells it."""
    name = unquote(folder)
    if _CUT.fullmatch(folder):
        # A long name was cut to make its folder's; the whole one stands in its manifests only.
        named = next((found for run_id in run_ids if (found := _named_by_manifest(store, folder, run_id))), None)
        return named or (name if segment(name) == folder else None)
    return name


def _named_by_manifest(store: Store, folder: str, run_id: str) -> str | None:
    for info in store.list_folder(f"{folder}/runs/{run_id}").objects:
        if generation_of(info.key.rpartition("/")[2]) is None:
            continue
        try:
            manifest = RunManifest.from_json(store.get(info.key), f"{store.uri}: {info.key}")
        except (CorruptFile, FormatError, ObjectMissing):
            continue
        if segment(manifest.eval_name) == folder:
            return manifest.eval_name
    return None
