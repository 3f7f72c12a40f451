"""Runs of a store, for commands that only read: the files they need, in a cache folder, and nothing else of the run.

    <cache>/<store>/<eval>/<manifest digest>-<need>/runs/<run-id>/...

The folder is named by the manifest's digest, so what lies in it is never out of date. What nobody used for a week is
removed when something is fetched.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from mst.errors import InfrastructureError, UsageError
from mst.model.keys import segment, source_stem
from mst.runs.folder import RunFolder
from mst.store.contract import Store
from mst.store.fetch import fetch_listing
from mst.store.find import FoundManifest, find_run, list_runs, read_run
from mst.store.layout import RunKeys
from mst.store.listing import Listing

Need = Literal["numbers", "page", "report"]
"""`numbers`: records, results and preferences; `page`: the report as it was stored; `report`: what one is made of."""

KEPT_S = 7 * 24 * 3600.0
_RECORDS = frozenset({"run.json", "summary.json"})
_NUMBERS = _RECORDS | {"results.json", "inputs/cases.jsonl"}


def cache_root(environment: Mapping[str, str] | None = None) -> Path:
    """Where fetched runs are kept: below `XDG_CACHE_HOME`, by default `~/.cache`."""
    found = (os.environ if environment is None else environment).get("XDG_CACHE_HOME")
    return (Path(found) if found else Path.home() / ".cache") / "mst" / "runs"


def read_stored(store: Store, ref: str, need: Need, cache: Path, *, eval_name: str | None = None) -> RunFolder:
    """A folder with what a command needs of a run that a store holds; every byte of it was checked.

    Of a regrade the source's transcripts come too when they are needed.

    Args:
        store: where the run is.
        ref: a full run ID, its short form, or `latest`.
        need: which files.
        cache: from `cache_root`.
        eval_name: narrows the search.

    Raises:
        UsageError: no such run, or several.
        DigestMismatch, StoreError: see `fetch_run`. No folder is left then.
        InfrastructureError: the cache folder cannot be made.
    """
    run = find_run(store, ref, eval_name)
    found = read_run(store, RunKeys(run.eval_name, run.run_id))
    if found is None:
        raise UsageError(f"{store.uri} has no run {run.run_id} of {run.eval_name}")
    runs = _home(cache, store, found, need) / "runs"
    _make(runs, cache)
    source = found.manifest.source
    if source is not None and need == "report":
        _fetch(store, Listing.of_source(run.eval_name, source), runs / source.run_id, need)
    _fetch(store, Listing.of(found.manifest), runs / run.run_id, need)
    return RunFolder(runs / run.run_id)


def stored_gradings(store: Store, eval_name: str, run_id: str, cache: Path) -> list[RunFolder]:
    """A run and its regrades that a store holds, each with its numbers only. `run_id` is of any of them.

    Raises:
        CorruptFile, FormatError, StoreError: one cannot be read.
        InfrastructureError: the cache folder cannot be made.
    """
    stem = source_stem(run_id)
    held = list_runs(store, eval_name, meant=lambda one: source_stem(one) == stem)
    return [read_stored(store, run.run_id, "numbers", cache, eval_name=eval_name) for run in held]


def is_needed(path: str, need: Need) -> bool:
    """Whether a run's file belongs to what is needed."""
    if need == "page":
        return path in _RECORDS or path.startswith("report/")
    if need == "report" and path.startswith("transcripts/"):
        return True
    return path in _NUMBERS or path.startswith("scores/pairwise.")


def forget_unused(cache: Path, now_s: float) -> None:
    """Remove what nobody used for a week. Safe beside other processes: a use renews the time."""
    for home in cache.glob("*/*/*"):
        try:
            if now_s - home.stat().st_mtime > KEPT_S:
                shutil.rmtree(home, ignore_errors=True)
        except OSError:
            continue


def _home(cache: Path, store: Store, found: FoundManifest, need: Need) -> Path:
    name = hashlib.sha256(store.uri.encode()).hexdigest()[:16]
    return cache / name / segment(found.manifest.eval_name) / f"{found.sha256[:16]}-{need}"


def _make(runs: Path, cache: Path) -> None:
    try:
        if not runs.is_dir():
            runs.mkdir(parents=True)
            forget_unused(cache, time.time())
        os.utime(runs.parent)
    except FileExistsError:
        return
    except OSError as error:
        raise InfrastructureError(
            f"{runs}: cannot be made ({error.strerror}); set XDG_CACHE_HOME to a folder that can be written"
        ) from error


def _fetch(store: Store, listing: Listing, into: Path, need: Need) -> None:
    if into.is_dir():
        return
    try:
        fetch_listing(store, listing, into=into, wanted=lambda path: is_needed(path, need))
    except UsageError:
        # Another process put the same files there meanwhile.
        if not into.is_dir():
            raise
