"""`mst diff-identity`: why two runs or trials cannot be compared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mst.cli.options import as_json, output_dir, results

if TYPE_CHECKING:
    from mst.model.case import Variant
    from mst.model.printed.identities import IdentitiesDocument
    from mst.model.trial import TrialRecord
    from mst.runs.folder import RunFolder
    from mst.runs.identity import Compared

TRIAL = re.compile(r"(?P<run>.+?):(?P<trial>[^:]+/.+/\d+)")


@click.command(
    name="diff-identity",
    epilog="Examples: mst diff-identity 7f3c2a 91ab01; mst diff-identity 7f3c2a:new/login/0 91ab01:new/login/0",
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@output_dir
@results
@as_json
@click.pass_context
def command(ctx: click.Context, a: str, b: str, output_dir: Path, results: str | None, as_json: bool) -> None:
    """Say in words why two runs, or two trials, cannot be compared: one line for each part that differs.

    A and B are two runs (folder, ID, its 6-hex short form, `latest`) or two trials: RUN:VARIANT/CASE/TRIAL, or the
    file of a trial's record.

    Exit code 0: comparable; 1: not; 2: no such run or trial.
    """
    from mst.errors import UsageError
    from mst.runs.identity import compare_runs, compare_trials

    one, other = (_read(ref, output_dir, results) for ref in (a, b))
    if isinstance(one, tuple) and isinstance(other, tuple):
        variants = None if one[1] is None or other[1] is None else (one[1], other[1])
        found = compare_trials(one[0], other[0], variants=variants)
    elif isinstance(one, tuple) or isinstance(other, tuple):
        raise UsageError(f"{a} and {b}: one is a run and one a trial; name two runs, or two trials")
    else:
        found = compare_runs(one, other)
    if as_json:
        import json

        click.echo(json.dumps(_document(found, a, b).to_print(), indent=2, ensure_ascii=False))
    else:
        _print(found, a, b)
    ctx.exit(0 if found.is_comparable else 1)


def _read(ref: str, root: Path, uri: str | None) -> RunFolder | tuple[TrialRecord, Variant | None]:
    from mst.cli.results import to_read
    from mst.errors import UsageError

    if Path(ref).is_file():
        return _record_at(Path(ref))
    named = None if "://" in ref or Path(ref).is_dir() else TRIAL.fullmatch(ref)
    if named is None:
        return to_read(ref, root, uri, need="report")
    folder = to_read(named["run"], root, uri, need="report")
    run = folder.run()
    rest, _, number = named["trial"].rpartition("/")
    from mst.model.keys import TrialKey

    for variant in run.plan.variants:
        if rest.startswith(f"{variant.name}/"):
            case_id = rest.removeprefix(f"{variant.name}/")
            record = folder.trial(TrialKey(variant=variant.name, case_id=case_id, trial=int(number)))
            if record is not None:
                return record, variant
    names = ", ".join(variant.name for variant in run.plan.variants)
    raise UsageError(f"{ref}: {run.run_id} has no such trial; write VARIANT/CASE/TRIAL, variants: {names}")


def _record_at(path: Path) -> tuple[TrialRecord, Variant | None]:
    """A record's file, and its variant when the file lies in a run folder."""
    from mst.config.files import read_stored
    from mst.model.trial import TrialRecord
    from mst.runs.folder import RunFolder

    record = TrialRecord.from_json(read_stored(path), str(path))
    for folder in path.resolve().parents:
        if (folder / "run.json").is_file():
            variants = RunFolder(folder).run().plan.variants
            return record, next((variant for variant in variants if variant.name == record.variant), None)
    return record, None


def _print(found: Compared, a: str, b: str) -> None:
    click.echo(f"A: {a}")
    click.echo(f"B: {b}")
    trials = f"{found.trials} pair{'' if found.trials == 1 else 's'} of trials looked at"
    if found.is_comparable:
        click.echo(f"comparable: every recorded part is equal ({trials})")
        return
    number = len(found.differences)
    click.echo(f"not comparable: {number} difference{'' if number == 1 else 's'} ({trials})")
    for difference in found.differences:
        click.echo(f"  {difference.said}")


def _document(found: Compared, a: str, b: str) -> IdentitiesDocument:
    from mst.model.printed.identities import IdentitiesDocument, IdentityDifference

    differences = [
        IdentityDifference(
            part=one.part,
            said=one.said,
            variant=one.variant,
            cases=list(one.cases) or None,
            a=one.one,
            b=one.other,
            trials=one.trials,
        )
        for one in found.differences
    ]
    return IdentitiesDocument(a=a, b=b, comparable=found.is_comparable, trials=found.trials, differences=differences)
