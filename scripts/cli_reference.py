"""Write `docs/reference/cli.md` from the commands themselves.

    python scripts/cli_reference.py [--check]

With `--check` nothing is written: the exit code is 1 when the page is not what the commands say.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from mst.cli import COMMANDS, cli
from mst.config.settings import Settings, variable
from mst.errors import EXIT_CODES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
WIDTH = 100
HEAD = """\
# Commands

<!-- Written by `make docs` from the commands; change those. -->

Results are on stdout, progress and messages on stderr. Colour and live progress appear on a terminal only, and never
with `NO_COLOR` or `CI`.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, _exit_codes(), _settings()]
    root = click.Context(cli, info_name="mst", **{**cli.context_settings, "terminal_width": WIDTH})
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        parts += list(_described(command, root, name))
    return "\n".join(parts)


def _exit_codes() -> str:
    rows = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    return f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{rows}\n"


def _settings() -> str:
    described = re.findall(r"^    (\w+): (.+)$", inspect.getdoc(Settings) or "", re.MULTILINE)
    assert [name for name, _ in described] == [field.name for field in dataclasses.fields(Settings)]
    plain = {name: re.sub(r" \(`MST_\w+`\)", "", meaning).rstrip(".") for name, meaning in described}
    rows = "\n".join(f"| `{variable(name)}` | {meaning} |" for name, meaning in plain.items())
    return f"## Environment\n\n| variable | names |\n| --- | --- |\n{rows}\n"


def _described(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=name)
    level = "##" if parent.parent is None else "###"
    yield f"{level} {context.command_path}\n\n```\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _described(found, context, inner)


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
