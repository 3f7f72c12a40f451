"""`mst attach`."""

from __future__ import annotations

from pathlib import Path

import click

from mst.cli.options import as_json, fail_on, output_dir, read_runner_options, results, secrets_file


@click.command(name="attach")
@click.argument("run", metavar="RUN")
@click.option("--runner-option", multiple=True, metavar="KEY=VALUE",
              help="Option of the runner, in place of the recorded one.")  # fmt: skip
@secrets_file
@output_dir
@results
@fail_on
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    run: str,
    runner_option: tuple[str, ...],
    secrets_file: Path | None,
    output_dir: Path,
    results: str | None,
    fail_on: tuple[str, ...],
    as_json: bool,
) -> None:
    """Go on with a run or a grading whose coordinator is gone, or was not to wait (--detach).

    Shards that still run are followed; what nobody works on any more is sent out again. Nothing that was finished is
    done twice. A run is collected to its end and then graded, as 'mst run' was told to and where it was; a report or a
    push that a killed command left out is made up for. RUN is a run, a regrade, or the run that it was made from when
    only one regrade is open. A run that this machine does not have is fetched from --results or MST_STORE.

    What is said now wins over what was recorded: MST_BROKER_URL and MST_STORE when broker or store have another address
    since, and --runner-option.

    \b
    mst attach 7f3c2a
    mst attach 7f3c2a.g2 --secrets-file judge-keys.json
    MST_BROKER_URL=redis://:PASSWORD@10.0.0.7:6379/0 mst attach 7f3c2a
    mst attach 7f3c2a --runner-option store=s3://team/evals
    """
    from mst.cli.attaching import Again, attach_run, end_graded, lacks_only_end, to_attach
    from mst.cli.detaching import find_or_bring
    from mst.cli.grading import Asked, grade_run
    from mst.cli.moved import options_now, refuse_unfit

    again = Again(
        options=read_runner_options(runner_option), secrets_file=secrets_file, fail_on=fail_on, as_json=as_json
    )
    found = find_or_bring(run, output_dir, results)
    # `latest` is a finished one by its rules; what is open stands beside it
    folder = to_attach(found.source if run == "latest" else found, again)
    record = folder.run()
    refuse_unfit(folder, again.options)
    if lacks_only_end(folder, again):
        ctx.exit(end_graded(folder, again))
    if record.graded_from is None:
        ctx.exit(attach_run(folder, again))
    grading = record.grading
    assert grading is not None
    options = options_now(grading.runner.name, grading.runner.options, again.options)
    asked = Asked(config=None, runner=grading.runner.name, options=options, secrets_file=secrets_file, mode="attach")
    ctx.exit(grade_run(folder, asked, fail_on=fail_on, as_json=as_json))
