"""`mst demo`: the main job on an example, with real programs and no key."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mst.cli.starting import Asked as RunAsked

EXAMPLE = "python-fixers"


@click.command(name="demo")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), default=Path("mst-demo"), show_default=True,
              help="Where the example and its results go.")  # fmt: skip
@click.option("--shards", type=click.IntRange(1, 24), default=3, show_default=True)
@click.pass_context
def command(ctx: click.Context, /, keep: Path, shards: int) -> None:
    """Run the main job on an example: which Python clean-up tool should we use?

    Collects 24 cases with four variants of three real tools, grades them on an embedded Celery fleet, and writes a
    report. Needs no key and no network. Ends with 0, and says what the default gate would have returned.
    """
    from mst.cli.ending import typed
    from mst.cli.grading import Asked as GradeAsked
    from mst.cli.grading import grade_run
    from mst.cli.running import run_eval
    from mst.runs.locate import latest_run

    config = _example(keep) / "eval.yaml"
    results = keep / "results"
    _say("1. collect: every tool on every case", typed("run", config, "--no-grade", "--output-dir", results))
    code = run_eval(_collect(config, results))
    if code != 0:
        ctx.exit(code)
    folder = next(iter(sorted((results / EXAMPLE / "runs").iterdir(), reverse=True)))
    where = ("--runner", "celery", "--runner-option", f"shards={shards}", "--output-dir", results)
    _say("2. grade on a Celery fleet that is started for this", typed("grade", folder.name, *where))
    from mst.runs.folder import RunFolder

    asked = GradeAsked(config=None, runner="celery", options={"shards": str(shards)}, secrets_file=None, mode="new")
    code = grade_run(RunFolder(folder.resolve()), asked, fail_on=(), as_json=False)
    if code not in (0, 1):
        ctx.exit(code)
    latest = latest_run(results)
    click.echo()
    click.echo(f"The default gate would have returned {code}{' (see gate: above)' if code else ''}.")
    click.echo(f"Open the report: {latest.path / 'report' / 'index.html'}")


def _say(what: str, command_line: str) -> None:
    click.echo(f"\n{what}\n   $ {command_line}\n")


def _collect(config: Path, results: Path) -> RunAsked:
    from mst.cli.starting import Asked

    return Asked(
        config=config, variants=(), cases=(), tags=(), max_cases=None, sample=None, trials=None, seed=20,
        runner="local", options={}, grade_runner="local", grade_options={}, no_grade=True, resuming=None, dry_run=False,
        fail_fast=False, secrets_file=None, output_dir=results, fail_on=(), as_json=False,
    )  # fmt: skip


def _example(keep: Path) -> Path:
    """A copy of the example beside its results, so that it can be looked at and changed."""
    target = keep / EXAMPLE
    if not target.is_dir():
        keep.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=keep) as scratch:
            shutil.copytree(_shipped(), Path(scratch) / EXAMPLE)
            (Path(scratch) / EXAMPLE).rename(target)
    return target


def _shipped() -> Path:
    from mst.errors import UsageError

    package = Path(__file__).resolve().parent.parent
    for folder in (package / "examples" / EXAMPLE, package.parent / "examples" / EXAMPLE):
        if (folder / "eval.yaml").is_file():
            return folder
    raise UsageError(f"the example {EXAMPLE} is not part of this installation; install mst from its wheel or checkout")
