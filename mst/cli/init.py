"""`mst init`: a working eval to edit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

STARTER = Path(__file__).parent / "starter"
FILES = {"eval.yaml": "eval.yaml", "cases.yaml": "cases.yaml", "slug.py": "slug.py.txt"}
"""Names in the new folder, and of their originals. The program's has another ending: it is no module of ours."""


@click.command(name="init", epilog="Example: mst init my-eval && mst run my-eval/eval.yaml")
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--import",
    "results",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Make an eval that grades results which others collected: a log of Inspect, output of promptfoo, or JSON "
    "lines. The file is copied into DIR. May be given several times.",
)
def command(folder: Path, results: tuple[Path, ...]) -> None:
    """Write a small working eval into DIR (here by default). Never overwrites a file."""
    from mst.cli.ending import typed
    from mst.cli.validate import needed_note, paragraph

    config = folder / "eval.yaml"
    if results:
        for path in write_import(folder, results):
            click.echo(path)
        click.echo(f"\nTry it:\n  {typed('validate', config)}\n  {typed('run', config)}")
        return
    write_starter(folder)
    for name in FILES:
        click.echo(folder / name)
    click.echo(f"\nTry it:\n  {typed('validate', config, '--oracle', '--noop')}\n  {typed('run', config)}\n")
    click.echo(paragraph(needed_note(candidates=1, cases=None)))
    if (checkout := _checkout(folder)) is not None:
        click.echo(
            f"\nThis is in the git checkout {checkout.name}: commit the eval with your work. "
            "Results go to .mst-results, a folder for .gitignore."
        )


def _checkout(folder: Path) -> Path | None:
    """The git checkout that a folder is in, None when it is in none."""
    there = folder.resolve()
    return next((parent for parent in (there, *there.parents) if (parent / ".git").exists()), None)


def write_starter(folder: Path) -> None:
    """Write the starter files. All or none: nothing is written when one of them is there already.

    Raises:
        UsageError: a file is in the way, or the folder cannot be written.
    """
    from mst.errors import UsageError

    _refuse_to_overwrite(folder, list(FILES))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, original in FILES.items():
            with (folder / name).open("x", encoding="utf-8") as stream:
                stream.write((STARTER / original).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error


def write_import(folder: Path, results: Sequence[Path]) -> list[Path]:
    """Write an eval for files of results, with copies of those that are not in the folder. What was written.

    Raises:
        UsageError: a file cannot be read or is in the way, or the folder cannot be written.
    """
    import shutil

    from mst.clients.imports.starter import import_config
    from mst.errors import UsageError

    there = folder.resolve()
    name = there.name or "imported"
    text = import_config(name, results)
    copied = [path for path in results if path.resolve().parent != there]
    _refuse_to_overwrite(folder, ["eval.yaml", *(path.name for path in copied)])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in copied:
            shutil.copyfile(path, folder / path.name)
        with (folder / "eval.yaml").open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}") from error
    return [*(folder / path.name for path in copied), folder / "eval.yaml"]


def _refuse_to_overwrite(folder: Path, names: Sequence[str]) -> None:
    from mst.errors import UsageError

    taken = [str(folder / name) for name in names if (folder / name).exists()]
    if taken:
        raise UsageError(f"{', '.join(taken)}: already there, and mst init overwrites nothing; name another folder")
