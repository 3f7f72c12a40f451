"""Which run a command means, and `--results URI`: a run is used where it is, and what came of it goes back there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.errors import AmbiguousRun, CorruptFile, DigestMismatch, StoreError, UsageError
from mst.runs.folder import RunFolder
from mst.runs.locate import find_run, new_regrade

if TYPE_CHECKING:
    from mst.runs.cached import Need
    from mst.store.contract import Store


def located(ref: str, root: Path, uri: str | None) -> RunFolder:
    """The run that is meant: under the results root, or fetched into it from the store.

    Raises:
        UsageError: nobody has it.
        StoreError: the store cannot be read.
    """
    from mst.runs.stored import bring, read_uri

    if (named := read_uri(ref)) is not None:
        return bring(_open(named.store), named.run, root, eval_name=named.eval_name)
    return find_run(ref, root) if uri is None else bring(_open(uri), ref, root)


def latest_to_grade(root: Path, uri: str | None) -> RunFolder:
    """What `latest` means to somebody who grades: the newer one of what is here and what the store has. Says which.

    Raises:
        UsageError: nobody has any; or several evals of the store have one.
        StoreError: the store cannot be read.
    """
    from mst.model.keys import run_order
    from mst.runs.locate import latest_to_grade as latest_here

    if uri is None:
        return latest_here(root)
    from mst.runs.stored import bring_run
    from mst.runs.stored import latest_to_grade as latest_there

    store = _open(uri)
    try:
        here: RunFolder | None = latest_here(root)
    except UsageError:
        here = None
    try:
        there = latest_there(store)
    except AmbiguousRun:
        raise
    except UsageError:
        if here is None:
            raise
        click.echo(f"mst: latest is {here.run_id} here; {store.uri} has none", err=True)
        return here
    if here is None or here.run_id == there.run_id:
        return bring_run(store, there, root)
    if run_order(here.run_id) > run_order(there.run_id):
        click.echo(f"mst: latest is {here.run_id} here, not the older {there.run_id} in {store.uri}", err=True)
        return here
    click.echo(f"mst: latest is {there.run_id} in {store.uri}, not the older {here.run_id} here", err=True)
    return bring_run(store, there, root)


def to_read(ref: str, root: Path, uri: str | None, need: Need = "numbers") -> RunFolder:
    """The same for a command that only reads: of a stored run only the files that it needs come, into a cache folder.

    A folder, and a run that only the results root has, is taken as it is; `latest` is the store's, or none. Raises as
    `located` does.
    """
    from mst.runs.cached import cache_root, read_stored
    from mst.runs.stored import read_uri

    if (named := read_uri(ref)) is not None:
        return read_stored(_open(named.store), named.run, need, cache_root(), eval_name=named.eval_name)
    if uri is None or Path(ref).is_dir():
        return find_run(ref, root)
    try:
        return read_stored(_open(uri), ref, need, cache_root())
    except AmbiguousRun:
        raise
    except UsageError:
        if ref == "latest":
            raise
        try:
            return find_run(ref, root)
        except UsageError:
            pass
        raise


def gradings(ref: str, root: Path, uri: str | None) -> list[RunFolder]:
    """All gradings of a run's trials, by number: those in the store as it holds them, and those that are only here.

    A run that was only collected is no grading. Raises as `to_read` does.
    """
    from mst.model.keys import regrade_number
    from mst.runs.cached import cache_root, stored_gradings
    from mst.runs.locate import eval_folder, gradings_in
    from mst.runs.stored import read_uri

    asked = to_read(ref, root, uri)
    run = asked.run()
    named = read_uri(ref)
    address = uri if named is None else named.store
    runs = (
        asked.path.parent
        if named is None and (uri is None or Path(ref).is_dir())
        else eval_folder(root, run.eval_name) / "runs"
    )
    found = {folder.run_id: folder for folder in gradings_in(runs, run.run_id)}
    if address is not None:
        held = stored_gradings(_open(address), run.eval_name, run.run_id, cache_root())
        found |= {folder.run_id: folder for folder in held}
    return [found[one] for one in sorted(found, key=regrade_number) if found[one].run().phases.grade != "skipped"]


def claiming(uri: str | None) -> Callable[[RunFolder], RunFolder]:
    """How the number of a regrade is claimed: here, and in the store too if there is one."""
    if uri is None:
        return new_regrade
    from mst.runs.stored import claim_in

    return claim_in(_open(uri))


def check_results(uri: str | None, eval_name: str, *, writes: bool = True) -> None:
    """Find a store that cannot be used before anything is spent.

    Args:
        uri: of the store; None when none is used.
        eval_name: whose run would go there.
        writes: try to write, too.

    Raises:
        StoreError: it cannot be read, or written.
        CorruptFile: its `latest.json` of the eval cannot be read, so that nothing could become the latest.
    """
    if uri is None:
        return
    from mst.model.keys import segment
    from mst.store.age import folder_now
    from mst.store.commit import read_latest

    store = _open(uri)
    store.list_folder(segment(eval_name))
    read_latest(store, eval_name)
    if writes:
        folder_now(store, segment(eval_name))


def pushed(folder: RunFolder, uri: str | None, *, interrupted: bool = False) -> None:
    """Push what is there of a run, if a store was named. The folder stays.

    Raises:
        MstError: what is wrong with the store or the run; says how to push it later.
    """
    if uri is None:
        return
    again = f"push it with: mst store push {folder.path} --results '{uri}'"
    if interrupted:
        click.echo(f"mst: not pushed; {again}", err=True)
        return
    from mst.runs.stored import push_folder

    try:
        store = _open(uri)
        manifest = push_folder(store, folder)
    except (StoreError, DigestMismatch, CorruptFile, UsageError) as error:
        raise type(error)(f"{error}\nthe run is kept; {again}") from error
    click.echo(f"mst: pushed to {store.uri}, generation {manifest.generation}", err=True)


def _open(uri: str) -> Store:
    from mst.cli.options import open_results

    return open_results(uri)
