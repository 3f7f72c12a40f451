"""How `run`, `grade`, `attach` and `show` end: the report, `latest.json`, the summary on stdout, the exit code."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from mst.report.gates import GateOutcome, exit_code, gate, outcome_codes, parse_conditions
from mst.runs.folder import RunFolder
from mst.runs.latest import publish_latest


def finish(
    folder: RunFolder,
    *,
    fail_on: Sequence[str],
    as_json: bool,
    interrupted: bool = False,
    refused: str | None = None,
) -> int:
    """Write the report, publish the run, print its result, and return the exit code."""
    from mst.report.html import write_report

    write_report(folder, folder.path / "report")
    publish_latest(folder)
    outcome = show(folder, fail_on=fail_on, as_json=as_json)
    if refused is not None:
        click.echo(f"mst: no shard could start: {refused}", err=True)
    if folder.run().phases.grade == "partial" or folder.run().phases.collect == "partial":
        click.echo(f"mst: {how_to_finish(folder)}", err=True)
    codes = outcome_codes(folder.run().phases, outcome)
    return exit_code([*codes, 130] if interrupted else codes)


def show(folder: RunFolder, *, fail_on: Sequence[str], as_json: bool) -> GateOutcome:
    """Print a run's result on stdout."""
    run, summary = folder.run(), folder.summary()
    outcome = gate(summary, parse_conditions(fail_on))
    if as_json:
        from mst.report.summary_json import summary_document

        document = summary_document(run, summary, path=folder.path, gate=outcome)
        click.echo(json.dumps(document.to_print(), indent=2))
        return outcome
    from rich.console import Console

    from mst.report.failures import first_apart
    from mst.report.terminal import render_summary
    from mst.report.words import is_whole

    report = folder.path / "report" / "index.html"
    is_broken = not all(is_whole(variant.counts) for variant in summary.variants)
    render_summary(
        run,
        summary,
        report_path=_short(report) if report.is_file() else None,
        console=Console(),
        broken=first_apart(folder.case_results()) if is_broken else None,
    )
    for reason in outcome.reasons:
        click.echo(f"gate: {reason}", err=True)
    return outcome


def how_to_finish(folder: RunFolder) -> str:
    """What to type to finish a partial run."""
    run = folder.run()
    if run.graded_from is not None:
        return f"{run.run_id} is partial; finish it with: {typed('grade', _short(folder.path), '--resume')}"
    if run.phases.collect == "partial":
        finish = typed("run", run.config_path or "CONFIG", "--resume", _short(folder.path))
        return f"{run.run_id} is partial; finish it with: {finish}"
    again = typed("grade", _short(folder.path), "--resume")
    return f"{run.run_id} has grading errors; ask those graders again with: {again}"


def typed(*words: str | Path) -> str:
    """A command of ours that can be copied into a shell, whatever is in its paths."""
    return shlex.join(["mst", *map(str, words)])


def _short(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
