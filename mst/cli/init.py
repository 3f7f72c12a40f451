"""`mst init`: a working eval to edit."""

from __future__ import annotations

from pathlib import Path

import click

STARTER = Path(__file__).parent / "starter"
FILES = {"eval.yaml": "eval.yaml", "cases.yaml": "cases.yaml", "slug.py": "slug.py.txt"}
"""Names in the new folder, and of their originals. The program's has another ending: it is no module of ours."""


@click.command(name="init", epilog="Example: mst init my-eval && mst run my-eval/eval.yaml")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path())
def command(folder: Path) -> None:
    """Write a small working eval into DIR (here by default). Never overwrites a file."""
    from mst.cli.validate import needed_note

    write_starter(folder)
    for name in FILES:
        click.echo(folder / name)
    config = folder / "eval.yaml"
    click.echo(f"\nTry it:\n  mst validate {config} --oracle --noop\n  mst run {config}\n")
    click.echo(needed_note(candidates=1, cases=None))


def write_starter(folder: Path) -> None:
    """Write the starter files. All or none: nothing is written when one of them is there already.

    Raises:
        UsageError: a file is in the way, or the folder cannot be written.
    """
    from mst.errors import UsageError

    taken = [str(folder / name) for name in FILES if (folder / name).exists()]
    if taken:
        raise UsageError(f"{', '.join(taken)}: already there, and mst init overwrites nothing; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, original in FILES.items():
            with (folder / name).open("x", encoding="utf-8") as stream:
                stream.write((STARTER / original).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error
