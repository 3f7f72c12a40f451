"""`mst grade` and `mst attach`: grade a stored run again, here or on a fleet."""

from __future__ import annotations

from pathlib import Path

import click

from mst.cli.options import as_json, fail_on, output_dir, read_runner_options, results, runner_options, secrets_file


@click.command(name="grade")
@click.argument("run", metavar="RUN")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=None,
              help="Eval config to grade with; the recorded one by default.")  # fmt: skip
@runner_options
@click.option(
    "--resume", "resuming", is_flag=True, help="Ask only graders that owe a verdict, in the regrade's own folder."
)
@click.option("--detach", is_flag=True, help="Send the shards to the fleet and return; 'mst attach' goes on.")
@click.option(
    "--only",
    multiple=True,
    metavar="WHAT",
    help="Grade some cases only: errors (of RUN), failed, case=ID, tag=TAG (with `*`). Never becomes the latest.",
)
@click.option("--reuse", metavar="RUN", default=None,
              help="Take verdicts of this grading where case, trial and grader are the same.")  # fmt: skip
@click.option("--distrust", multiple=True, metavar="WHO",
              help="With --resume: drop what machine=ID or attempt=ID gave, and have it given again.")  # fmt: skip
@secrets_file
@output_dir
@results
@fail_on
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    run: str,
    only: tuple[str, ...],
    reuse: str | None,
    distrust: tuple[str, ...],
    config: Path | None,
    runner: str,
    runner_option: tuple[str, ...],
    resuming: bool,
    detach: bool,
    secrets_file: Path | None,
    output_dir: Path,
    results: str | None,
    fail_on: tuple[str, ...],
    as_json: bool,
) -> None:
    """Grade a stored run again, as a run of its own beside it.

    RUN is a run folder, a run ID, its 6-hex short form, `latest`, or a store URI. `latest` is also what was collected
    since and not graded yet (mst run --no-grade); with --results, the newer one of what is here and in the store.

    \b
    mst grade latest
    mst grade 7f3c2a --runner process --runner-option shards=4
    mst grade latest --runner celery --secrets-file judge-keys.env
    mst grade 7f3c2a.g2 --resume
    mst grade 7f3c2a.g2 --resume --distrust machine=spot-17
    mst grade latest --config judges-v2.yaml --reuse latest
    mst grade latest --only errors --only tag=slow
    mst grade latest --runner celery --runner-option shards=8 --detach
    """
    from mst.cli.grading import Asked, grade_run
    from mst.cli.results import latest_to_grade, located
    from mst.errors import UsageError

    if distrust and not resuming:
        raise UsageError("--distrust drops verdicts of a grading and has them given again: add --resume")
    wants_latest = run == "latest" and not resuming
    folder = latest_to_grade(output_dir, results) if wants_latest else located(run, output_dir, results)
    asked = Asked(
        config=config,
        runner=runner,
        options=read_runner_options(runner_option),
        secrets_file=secrets_file,
        mode="resume" if resuming else "new",
        results=results,
        only=only,
        reuse=located(reuse, output_dir, results) if reuse is not None else None,
        detach=detach,
        distrust=distrust,
    )
    ctx.exit(grade_run(folder, asked, fail_on=fail_on, as_json=as_json))
