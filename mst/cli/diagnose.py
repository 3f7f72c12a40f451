"""`mst diagnose`: why trials failed, and what to do next."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, output_dir, results

if TYPE_CHECKING:
    from mst.report.nextsteps import Naming
    from mst.runs.folder import RunFolder


@click.command(name="diagnose")
@click.argument("run", metavar="RUN", required=False)
@click.option("--variant", "variants", multiple=True, metavar="NAME", help="Only this variant; may be given often.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many causes.")
@output_dir
@results
@as_json
def command(
    run: str | None, variants: tuple[str, ...], limit: int, output_dir: Path, results: str | None, as_json: bool
) -> None:
    """Say why trials of a run failed: causes by kind, grader and stage, an example of each, and what to do next.

    What broke down or got no verdict comes before failed answers: it is in no number, and a resume mends it. RUN is a
    run folder, a run ID, its 6-hex short form, `latest`, or a store URI; by default the run that was begun last,
    complete or not, and with --results the store's latest.

    \b
    mst diagnose
    mst diagnose 7f3c2a.g2 --variant new
    """
    from mst.cli.results import to_read
    from mst.report.diagnosis import diagnose, diagnosis_document, render_diagnosis
    from mst.runs.locate import newest_run

    run = run or (newest_run(output_dir).run_id if results is None else "latest")
    folder = to_read(run, output_dir, results)
    _refuse_unknown(folder, variants)
    found = diagnose(folder, _naming(folder, run, output_dir, results), variants=variants)
    if as_json:
        click.echo(json.dumps(diagnosis_document(found).to_print(), indent=2))
        return
    from rich.console import Console

    render_diagnosis(found, Console(), limit=limit)


def _refuse_unknown(folder: RunFolder, variants: tuple[str, ...]) -> None:
    from mst.errors import UsageError

    known = [variant.name for variant in folder.run().variants]
    unknown = [name for name in variants if name not in known]
    if unknown:
        raise UsageError(f"--variant {unknown[0]}: {folder.run_id} has {', '.join(known)}")


def _naming(folder: RunFolder, ref: str, root: Path, uri: str | None) -> Naming:
    """How commands that the user can copy name this run."""
    from mst.model.keys import short_id
    from mst.report.nextsteps import Naming
    from mst.runs.stored import read_uri

    run = folder.run()
    source = run.graded_from or run.run_id
    config = Path(run.config_path) if run.config_path is not None else None
    written = os.path.relpath(config) if config is not None and config.is_file() else "CONFIG"
    stored = read_uri(ref)
    if stored is not None or uri is not None:
        where: tuple[str, ...] = ("--results", stored.store if stored is not None else str(uri))
    elif folder.path.resolve().is_relative_to(root.resolve()):
        where = () if root == Path(".mst-results") else ("--output-dir", str(root))
    else:
        return Naming(run=str(folder.path), source=str(folder.path.with_name(source)), config=written)
    return Naming(run=short_id(run.run_id), source=short_id(source), config=written, where=where)
