"""`mst judges`: which there are, and how far those of a run can be trusted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, output_dir, results, secrets_file
from mst.process.scratch import scratch_prefix

if TYPE_CHECKING:
    from mst.grade.assess import Assessment
    from mst.grade.contract import Grader
    from mst.runs.assessing import Wanted
    from mst.runs.calibrate import Calibration
    from mst.runs.folder import RunFolder


@click.group(name="judges", invoke_without_command=True)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List judges, or assess those of a run.

    \b
    mst judges
    mst judges assess latest --bias --stability
    mst judges assess 7f3c2a --calibrate labels.csv
    """
    if ctx.invoked_subcommand is not None:
        return
    from mst.config.registry import known

    found = {kind: known(kind) for kind in ("judges", "pairwise_judges")}
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for kind, names in found.items():
        click.echo(f"{kind}: {', '.join(names)}")


@command.command(name="assess")
@click.argument("run", metavar="RUN")
@click.option("--stability", is_flag=True, help="Ask the same again: do they repeat themselves?")
@click.option("--bias", is_flag=True, help="Planted answers: do order, length or their own name sway them?")
@click.option("--calibrate", "labels", metavar="LABELS", default=None,
              type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="Labels of people (CSV or JSON lines: variant, case, trial, pass); asks nothing.")  # fmt: skip
@click.option("--judge", "judges", multiple=True, metavar="NAME", help="Only these judges.")
@click.option("--sample", type=click.IntRange(min=1), default=20, show_default=True, help="Trials, or pairs, for each.")
@click.option("--times", type=click.IntRange(min=2), default=3, show_default=True, help="How often the same is asked.")
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the sample.")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=None,
              help="Eval config with the judges; the recorded one by default.")  # fmt: skip
@secrets_file
@output_dir
@results
@as_json
def assess_command(
    run: str,
    stability: bool,
    bias: bool,
    labels: Path | None,
    judges: tuple[str, ...],
    sample: int,
    times: int,
    seed: int,
    config: Path | None,
    secrets_file: Path | None,
    output_dir: Path,
    results: str | None,
    as_json: bool,
) -> None:
    """How far can the judges of RUN be trusted? Names what is wrong with each; stores nothing.

    Without an option both --stability and --bias are tried. They ask the judges, which costs what judging costs.
    """
    from mst.cli.results import located
    from mst.runs.assessing import AssessmentDocument, Wanted

    folder = located(run, output_dir, results)
    asks = stability or bias or labels is None
    both = asks and not (stability or bias)
    wanted = Wanted(
        stability=stability or both, bias=bias or both, judges=judges, sample=sample, times=times, seed=seed
    )
    found = _ask(folder, config, wanted, secrets_file, as_json=as_json) if asks else None
    calibrated = _calibrated(folder, labels, judges) if labels is not None else None
    if as_json:
        document = AssessmentDocument(run_id=folder.run_id, assessments=found, calibration=calibrated)
        click.echo(json.dumps(document.to_print(), indent=2))
        return
    if found is not None:
        from rich.console import Console

        from mst.report.assessed import render_assessments

        render_assessments(found, Console())
    for one in calibrated or ():
        _print_calibration(one)


def _ask(
    folder: RunFolder, config: Path | None, wanted: Wanted, secrets: Path | None, *, as_json: bool
) -> list[Assessment]:
    import tempfile
    from contextlib import aclosing

    from mst.cli.progress import Progress
    from mst.config.secrets import secrets_for
    from mst.errors import GraderError, UsageError
    from mst.grade.assess import Assessor
    from mst.grade.live import Live
    from mst.process.redact import Redactor
    from mst.runs.assessing import assess, calls_a_question, calls_of, judges_of, pairs_of, subjects_of
    from mst.runs.inputs import grade_inputs

    source = folder.source
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("assess")) as scratch:
        inputs = grade_inputs(source.run(), source, config, Path(scratch))
        plan, cases = inputs.plan, inputs.cases
        asked = judges_of(plan, cases, wanted.judges)
        if not asked:
            raise UsageError(f"{folder.run_id}: its eval has no judge to assess")
        subjects, pairs = subjects_of(source, plan, cases, wanted), pairs_of(source, plan, cases, wanted)
        if not subjects:
            raise UsageError(f"{folder.run_id}: no trial has an answer to try judges on")
        values = secrets_for(plan, cases, "grade", secrets, local=True)
        calls = calls_of(asked, len(subjects), len(pairs), wanted)
        click.echo(f"mst: about {calls} calls of judges", err=True)
        live = Live(plan, files=inputs.files, secrets=values, scratch=Path(scratch), redactor=Redactor(values.values()))

        async def run(progress: Progress) -> list[Assessment]:
            def answered(judge: Grader) -> None:
                for _ in range(calls_a_question(judge)):
                    progress.one_more(passed=None)

            async with aclosing(live):
                await live.preflight(asked)
                assessor = Assessor(live, concurrency=plan.concurrency, answered=answered)
                return await assess(assessor, asked, subjects, pairs, wanted)

        try:
            with Progress("asked", calls, {}, as_json=as_json) as progress:
                return asyncio.run(run(progress))
        except GraderError as error:
            raise UsageError(f"preflight: {error}") from error


def _calibrated(folder: RunFolder, labels: Path, judges: tuple[str, ...]) -> list[Calibration]:
    from mst.runs.calibrate import calibrate, read_labels

    return calibrate(folder, read_labels(labels), list(judges) or None)


def _print_calibration(found: Calibration) -> None:
    def number(value: float | None) -> str:
        return "not known" if value is None else f"{value:.3f}"

    if found.finding:
        click.echo(f"{found.grader} {found.finding}")
    click.echo(
        f"{found.grader:<24} {found.agree} of {found.n} labels agree, {found.missing} without a verdict; "
        f"kappa {number(found.kappa)}, true positives {number(found.tpr)}, true negatives {number(found.tnr)}"
    )
    for variant, rate in found.rates.items():
        error = "" if rate.get("se") is None else f" (SE {number(rate['se'])})"
        click.echo(f"    {variant:<20} judged {number(rate['judged'])}, corrected {number(rate['corrected'])}{error}")
