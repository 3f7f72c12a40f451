"""`--detach` of `mst run` and `mst grade`, and `mst attach` on a machine that has only the store."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mst.config.settings import Settings
from mst.errors import StoreError, UsageError
from mst.runs.folder import RunFolder
from mst.runs.locate import find_run

if TYPE_CHECKING:
    from mst.shards.contract import Runner
    from mst.shards.detached import Detached
    from mst.store.contract import Store


def refuse_alone(kind: Any, options: Any) -> None:
    """Refuse to leave shards that would end with this command.

    Raises:
        UsageError: they run on this machine; or no broker is set, so the fleet would be an embedded one.
    """
    if not hasattr(kind, "send"):
        raise UsageError("--detach: only shards on a fleet go on without this command; use --runner celery")
    if not (getattr(options, "broker", None) or Settings.from_environment().broker_url):
        raise UsageError(
            "--detach: the fleet must outlive this command, and an embedded one would not: set MST_BROKER_URL and "
            "MST_STORE to those of a fleet"
        )


def detaching(runner: Runner, source: RunFolder, options: Any) -> Runner:
    """A runner that sends and leaves, after the run is in the fleet's store."""
    from mst.shards.detached import Detaching

    def publish(run_id: str) -> None:
        from mst.runs.stored import push_folder

        push_folder(fleet_store(options), RunFolder(source.path.with_name(run_id)))

    return Detaching(runner, publish)  # type: ignore[return-value]  # delegates everything else


def say_detached(left: Detached, options: Any, *, needs_secrets: bool = False) -> None:
    """What was sent, on stdout, and how to go on.

    Args:
        needs_secrets: who attaches asks judges that need some.
    """
    from mst.store.uri import for_record

    done = "collected" if left.work == "collect" else "graded"
    shards = "1 shard; it is" if left.shards == 1 else f"{left.shards} shards; they are"
    attach = f"mst attach {left.run_id}" + (" --secrets-file FILE" if needs_secrets else "")
    click.echo(f"{left.run_id}: {left.dispatch} sent, {shards} {done} without this command")
    click.echo(f"mst: go on with: {attach}", err=True)
    store = shlex.quote(for_record(shared_store(options) or ""))
    click.echo(
        f"mst: on another machine, with the fleet's MST_BROKER_URL and keys: MST_STORE={store} {attach}", err=True
    )


def shared_store(options: Any) -> str | None:
    """URI of the store that coordinators and workers share; None when no place names one."""
    return getattr(options, "store", None) or Settings.from_environment().store


def fleet_store(options: Any) -> Store:
    """The store that coordinators and workers share.

    Raises:
        UsageError: none is set.
    """
    from mst.cli.options import open_results

    return open_results(shared_store(options))


def find_or_bring(ref: str, root: Path, uri: str | None) -> RunFolder:
    """A run of this machine, or else of the store that `--results` or MST_STORE names.

    Raises:
        UsageError: neither has it.
    """
    try:
        return find_run(ref, root)
    except UsageError:
        uri = uri or Settings.from_environment().store
        if uri is None:
            raise
    from mst.runs.stored import bring
    from mst.store.uri import open_store

    folder = bring(open_store(uri), ref, root)
    click.echo(f"mst: {folder.run_id} was fetched to {folder.path}", err=True)
    return folder


def lacks_push(folder: RunFolder, options: Any) -> bool:
    """Whether a run that was detached is whole here and not in the store: who attached was killed while pushing it."""
    phases = folder.run().phases
    if (phases.collect, phases.grade) != ("complete", "complete") or shared_store(options) is None:
        return False
    from mst.store.find import read_run
    from mst.store.layout import RunKeys

    run = folder.run()
    there = read_run(fleet_store(options), RunKeys(run.eval_name, run.run_id))
    return there is not None and not there.manifest.complete


def publisher(folder: RunFolder, options: Any) -> Callable[[RunFolder], None]:
    """How the end of a run that was detached gets into the store: whoever is first creates it, another leaves it."""
    if shared_store(options) is None:
        return lambda _folder: None
    from mst.store.find import read_run
    from mst.store.layout import RunKeys

    store, run = fleet_store(options), folder.run()
    keys = RunKeys(run.eval_name, run.run_id)
    if read_run(store, keys) is None:
        return lambda _folder: None

    def publish(graded: RunFolder) -> None:
        from mst.runs.stored import push_folder

        there = read_run(store, keys)
        if there is not None and there.manifest.complete:
            click.echo(f"mst: {store.uri} has the result already", err=True)
            return
        try:
            manifest = push_folder(store, graded)
        except StoreError as error:
            raise type(error)(f"{error}\nthe run is kept: {graded.path}") from error
        click.echo(f"mst: pushed to {store.uri}, generation {manifest.generation}", err=True)

    return publish
