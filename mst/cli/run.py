"""`mst run`: collect and grade."""

from __future__ import annotations

from pathlib import Path

import click

from mst.cli.options import as_json, fail_on, output_dir, read_runner_options, results, runner_options, secrets_file


@click.command(name="run")
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--variant", "variants", multiple=True, help="Only this variant; may be given several times.")
@click.option("--case", "cases", multiple=True, help="Only this case; may be given several times.")
@click.option("--filter-tag", "tags", multiple=True, help="Only cases with this tag.")
@click.option("--max-cases", type=click.IntRange(1), default=None, help="Only the first N cases.")
@click.option("--sample", type=click.IntRange(1), default=None, help="Only N cases, drawn with --seed.")
@click.option("--trials", type=click.IntRange(1), default=None, help="Trials of each case, in place of the config's.")
@click.option("--seed", type=int, default=None, help="Of the order in which trials run; drawn and recorded by default.")
@runner_options
@click.option(
    "--grade-runner", default="local", show_default=True, help="Where to grade: local, process, docker, celery."
)
@click.option("--grade-runner-option", multiple=True, metavar="KEY=VALUE", help="Option of the grade runner.")
@click.option("--no-grade", is_flag=True, help="Only collect; 'mst grade' grades later.")
@click.option(
    "--resume", "resuming", metavar="RUN", default=None, help="Finish this run: only what is missing or broke down."
)
@click.option(
    "--extend",
    is_flag=True,
    help="With --resume: add trials, cases or variants that there are more of now. Counts as another look.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(["errors", "failed"]),
    help="A new run of the cases that broke down, or failed, in the latest one.",
)
@click.option("--no-probe", is_flag=True, help="Do not ask each agent one short question first.")
@click.option("--detach", is_flag=True, help="Send the shards to the fleet and return; 'mst attach' goes on.")
@click.option("--dry-run", is_flag=True, help="Check everything and say what would run; start nothing.")
@click.option("--fail-fast", is_flag=True, help="Start no more trials after the first that broke down.")
@secrets_file
@output_dir
@results
@fail_on
@as_json
@click.pass_context
def command(ctx: click.Context, /, config: Path, runner_option: tuple[str, ...], grade_runner_option: tuple[str, ...],
            **given: object) -> None:  # fmt: skip
    """Collect and grade an eval, and say which variant does the job better.

    \b
    mst run examples/hello/eval.yaml
    mst run eval.yaml --variant new --case login --trials 5
    mst run eval.yaml --runner process --runner-option shards=4
    mst run eval.yaml --resume 7f3c2a
    mst run eval.yaml --resume 7f3c2a --extend --trials 10
    mst run eval.yaml --only failed
    mst run eval.yaml --runner celery --runner-option shards=8 --detach
    """
    from mst.cli.running import run_eval
    from mst.cli.starting import Asked

    asked = Asked(
        config=config,
        options=read_runner_options(runner_option),
        grade_options=read_runner_options(grade_runner_option),
        **given,  # type: ignore[arg-type]  # click checked the types
    )
    ctx.exit(run_eval(asked))
