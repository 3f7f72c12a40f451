"""`mst attach`."""

from __future__ import annotations

from pathlib import Path

import click

from mst.cli.options import as_json, fail_on, output_dir, results, secrets_file


@click.command(name="attach")
@click.argument("run", metavar="RUN")
@secrets_file
@output_dir
@results
@fail_on
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    run: str,
    secrets_file: Path | None,
    output_dir: Path,
    results: str | None,
    fail_on: tuple[str, ...],
    as_json: bool,
) -> None:
    """Go on with a run or a grading whose coordinator is gone, or was not to wait (--detach).

    Shards that still run are followed; what nobody works on any more is sent out again. Nothing that was finished is
    done twice. A run is collected to its end and then graded, as 'mst run' was told to and where it was. RUN is a run,
    a regrade, or the run that it was made from when only one regrade is open. A run that this machine does not have is
    fetched from --results or MST_STORE.
    """
    from mst.cli.attaching import attach_run, end_graded
    from mst.cli.detaching import find_or_bring
    from mst.cli.grading import Asked, grade_run, options_again, under_way
    from mst.runs.locate import lacks_end

    found = find_or_bring(run, output_dir, results)
    # `latest` is a finished one by its rules; what is open stands beside it
    folder = under_way(found.source if run == "latest" else found)
    record = folder.run()
    if lacks_end(folder):
        ctx.exit(end_graded(folder, fail_on=fail_on, as_json=as_json))
    if record.graded_from is None:
        ctx.exit(attach_run(folder, secrets_file=secrets_file, fail_on=fail_on, as_json=as_json))
    grading = record.grading
    assert grading is not None
    options = options_again(grading.runner.name, grading.runner.options)
    asked = Asked(config=None, runner=grading.runner.name, options=options, secrets_file=secrets_file, mode="attach")
    ctx.exit(grade_run(folder, asked, fail_on=fail_on, as_json=as_json))
