"""`mst store`: look into a result store, bring runs into it and out of it, check it and clear it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, output_dir, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mst.model.manifest import RunManifest
    from mst.model.printed.base import Printed
    from mst.model.printed.store import StoredRunRow
    from mst.store.contract import Store
    from mst.store.wrong import Wrong


@click.group(name="store")
def command() -> None:
    """Runs in a result store: listed, fetched, pushed, verified, and leftovers removed.

    The store is `--results URI`, else MST_STORE: file:PATH, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.
    """


@command.command(name="ls", short_help="List the runs of a store, or of one eval.")
@click.argument("eval_name", metavar="[EVAL]", required=False)
@results
@as_json
@click.pass_context
def ls(ctx: click.Context, eval_name: str | None, results: str | None, as_json: bool) -> None:
    """List the runs of a store, or of one eval in it; exit 4 when one cannot be read."""
    from mst.runs.stored import latest_runs, stored_runs

    store = _open(results)
    found, wrong = stored_runs(store, eval_name)
    latest, wrong_latest = latest_runs(store, sorted({run.eval_name for run in found}))
    wrong += wrong_latest
    rows = [_row(run, latest=latest.get(run.eval_name) == run.run_id) for run in found]
    if as_json:
        from mst.model.printed.store import StoredRunsDocument

        said = [str(error) for error in wrong]
        _print(StoredRunsDocument(store=store.uri, runs=rows, wrong=said))
    else:
        for line in _lines(rows):
            click.echo(line)
        if not rows and not wrong:
            click.echo(f"mst: no run{f' of {eval_name}' if eval_name else ''} in {store.uri} yet", err=True)
    for error in wrong:
        click.echo(f"mst: {error}", err=True)
    ctx.exit(4 if wrong else 0)


def _lines(rows: list[StoredRunRow]) -> Iterator[str]:
    """A line for each run, in columns; never broken, so that other programs can read them."""
    if not rows:
        return
    evals, ids = (max(map(len, column)) for column in ((row.eval for row in rows), (row.run_id for row in rows)))
    for row in rows:
        state = "latest" if row.latest else "complete" if row.complete else "partial"
        yield f"{row.eval:{evals}}  {row.run_id:{ids}}  {state:8}  {row.files:>6} files  {row.bytes:>12} bytes"


def _row(run: RunManifest, *, latest: bool) -> StoredRunRow:
    from mst.model.printed.store import StoredRunRow

    return StoredRunRow(
        eval=run.eval_name,
        run_id=run.run_id,
        generation=run.generation,
        complete=run.complete,
        latest=latest,
        files=len(run.files) + sum(pack.files for pack in run.packs),
        # What it shares with another run has a key of that run.
        bytes=sum(file.size for file in run.files if file.object is None)
        + sum(pack.size for pack in run.packs if pack.object is None),
        pushed_at=run.created_at.isoformat(),
    )


@command.command(name="fetch")
@click.argument("run", metavar="RUN")
@results
@output_dir
@as_json
def fetch(run: str, results: str | None, output_dir: Path, as_json: bool) -> None:
    """Fetch a run into the results root; a regrade's source too.

    Every byte is checked. A run is there whole or not at all. RUN is a run ID, its short form, or `latest`.
    """
    from mst.runs.stored import bring

    store = _open(results)
    folder = bring(store, run, output_dir)
    if as_json:
        from mst.model.printed.store import FetchedDocument

        _print(FetchedDocument(store=store.uri, run_id=folder.run_id, path=str(folder.path)))
    else:
        click.echo(folder.path)


@command.command(name="push", short_help="Push a run from the results root.")
@click.argument("run", metavar="RUN")
@click.option("--repair", is_flag=True, help="Send everything again, over objects whose bytes went wrong.")
@results
@output_dir
@as_json
def push(run: str, repair: bool, results: str | None, output_dir: Path, as_json: bool) -> None:
    """Push a run from the results root; a regrade's source is pushed first unless it is there.

    What is there is not sent again. RUN is a run folder, a run ID, its short form, or `latest`.
    """
    from mst.runs.locate import find_run
    from mst.runs.stored import push_folder

    store, folder = _open(results), find_run(run, output_dir)
    with folder.locked():
        manifest = push_folder(store, folder, repair=repair)
    if as_json:
        from mst.model.printed.store import PushedDocument

        _print(
            PushedDocument(
                store=store.uri, eval=manifest.eval_name, run_id=manifest.run_id, generation=manifest.generation
            )
        )
    else:
        click.echo(f"{store.uri}: {manifest.eval_name} {manifest.run_id}, generation {manifest.generation}")


@command.command(name="verify", short_help="Read everything and compare it with its manifests.")
@click.argument("run", metavar="[RUN]", required=False)
@results
@as_json
@click.pass_context
def verify(ctx: click.Context, run: str | None, results: str | None, as_json: bool) -> None:
    """Read everything that manifests list and compare it; exit 4 and name each object that is wrong.

    RUN is a run ID, its short form, or `latest`; every run by default.
    """
    from mst.model.printed.store import VerifiedDocument, WrongObject

    store = _open(results)
    runs: list[str] = []
    wrong: dict[str, WrongObject] = {}
    unproven: dict[str, None] = {}
    for one in _verified(store, run, runs):
        if one.unproven:
            unproven[one.key] = None
            continue
        # Another run, or another index, may have named it already.
        if one.key not in wrong:
            wrong[one.key] = WrongObject(key=one.key, what=one.what, mend=one.mend)
            if not as_json:
                click.echo(f"{one.key}: {one.what}")
    if as_json:
        document = VerifiedDocument(
            store=store.uri, runs=len(runs), wrong=list(wrong.values()), unproven=list(unproven)
        )
        _print(document)
    if unproven:
        click.echo(f"mst: not checked, since earlier versions wrote no checksum: {', '.join(unproven)}", err=True)
    checked = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} checked"
    click.echo(f"mst: {len(wrong) or 'nothing'} wrong in {store.uri}, {checked}", err=True)
    for mend in dict.fromkeys(one.mend for one in wrong.values()):
        click.echo(f"mst: to mend {mend}", err=True)
    ctx.exit(4 if wrong else 0)


def _verified(store: Store, ref: str | None, runs: list[str]) -> Iterator[Wrong]:
    """What is wrong; `runs` is given the ID of each run that was looked at.

    Raises:
        UsageError: there is no run, so that nothing wrong would mean nothing.
    """
    from mst.errors import UsageError
    from mst.store.find import find_run
    from mst.store.layout import RunKeys
    from mst.store.verify import verify_run, verify_store

    if ref is not None:
        found = find_run(store, ref)
        runs.append(found.run_id)
        yield from verify_run(store, RunKeys(found.eval_name, found.run_id))
        return
    any_wrong = False
    for one in verify_store(store, begun=lambda run: runs.append(run.run_id)):
        any_wrong = True
        yield one
    if not runs and not any_wrong:
        raise UsageError(f"no run in {store.uri}, so there is nothing to verify; is the URI right?")


@command.command(name="gc", short_help="Remove leftovers and dispatches that are over.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--age-days", type=click.FloatRange(1), default=7.0, show_default=True, help="Keep what is younger.")
@click.option("--abandon", is_flag=True, help="Also dispatches that were opened longer ago and never closed.")
@click.option("--eval", "eval_name", default=None, help="Only this eval.")
@results
@as_json
@click.pass_context
def gc(
    ctx: click.Context,
    dry_run: bool,
    age_days: float,
    abandon: bool,
    eval_name: str | None,
    results: str | None,
    as_json: bool,
) -> None:
    """Remove leftovers: what no manifest lists, and dispatches that are over. Try --dry-run first.

    Safe beside pushes and running dispatches. What any run lists is never removed. Exit 4 when a manifest cannot be
    read: nothing of its eval is removed then.
    """
    from mst.errors import CorruptFile, FormatError
    from mst.model.printed.store import RemovedObject, StoreClearedDocument
    from mst.store.gc import find_leftovers, remove

    store, age = _open(results), timedelta(days=age_days)
    gone: list[RemovedObject] = []
    wrong: list[str] = []
    for folder in _eval_folders(store, eval_name):
        try:
            leftovers = find_leftovers(store, folder, age=age, abandon=abandon)
        except (CorruptFile, FormatError) as error:
            wrong.append(f"{error}; nothing of {folder} was removed")
            continue
        for leftover in leftovers:
            if dry_run or remove(store, leftover):
                gone.append(RemovedObject(key=leftover.info.key, bytes=leftover.info.size, why=leftover.why))
                if not as_json:
                    click.echo(f"{leftover.info.key}  {leftover.info.size}  {leftover.why}")
    if as_json:
        _print(StoreClearedDocument(store=store.uri, dry_run=dry_run, removed=gone, wrong=wrong))
    for line in wrong:
        click.echo(f"mst: {line}", err=True)
    size, would = sum(one.bytes for one in gone), "would be " if dry_run else ""
    click.echo(f"mst: {len(gone)} objects, {size} bytes, {would}removed from {store.uri}", err=True)
    ctx.exit(4 if wrong else 0)


def _eval_folders(store: Store, eval_name: str | None) -> list[str]:
    """Folders of all evals, or of one.

    Raises:
        UsageError: there is no such eval.
    """
    from mst.errors import UsageError
    from mst.model.keys import segment

    folders = sorted(store.list_folder("").folders)
    if eval_name is None:
        return folders
    if segment(eval_name) not in folders:
        raise UsageError(f"{store.uri} has no eval {eval_name!r}; 'mst store ls' lists its runs")
    return [segment(eval_name)]


def _print(document: Printed) -> None:
    click.echo(json.dumps(document.to_print(), indent=2))


def _open(uri: str | None) -> Store:
    from mst.cli.options import open_results

    return open_results(uri)
