"""What the documentation shows is there: links, commands with their options, make targets, the page of commands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from mst.cli import HIDDEN, cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    if ".venvs" not in path.parts
)
LINK = re.compile(r"(?<!\!)\[[^\]\[]*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMING: set[str] = set()
"""Commands that a page names before they are there. May only shrink: one that is there must leave."""
PLACEHOLDERS = ("...", "…", "<")


def relative(path):
    return path.relative_to(ROOT).as_posix()


def commands(text):
    """Every `mst ...` and `make ...` that a page shows: lines of blocks, and code in sentences."""
    lines = [line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    inline = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    for line in [*lines, *inline]:
        for part in re.split(r"&&?|\|\||;", line):
            shown = re.sub(r"^(\s*(\$|[A-Z_]+=\S+|honcho run)\s+)*", "", part).strip()
            if re.match(r"(mst|make) \S", shown) and not any(mark in shown for mark in PLACEHOLDERS):
                yield shown


def understood(words):
    """None when the command line takes these words, else why not. Nothing is run and no file is looked for."""
    context, command = click.Context(cli, info_name="mst", **cli.context_settings), cli
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            break
        name, *words = words
        found = command.get_command(context, name)
        if found is None:
            return f"there is no command {name!r}"
        context, command = click.Context(found, parent=context, info_name=name), found
    try:
        _, rest, _ = command.make_parser(context).parse_args(list(words))
        return f"it takes no {' '.join(rest)!r}" if rest and not isinstance(command, click.Group) else None
    except click.UsageError as error:
        return error.format_message()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text())
    targets = [unquote(target.partition("#")[0]) for target in LINK.findall(text) if "://" not in target]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_commands_that_are_shown_exist(page):
    faults = []
    made = set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for shown in commands(page.read_text()):
        program, *words = shlex.split(shown, comments=True)
        if program == "make":
            unknown = [word for word in words if word not in made and "=" not in word]
            faults += [
                f"{shown}: no target {word}" for word in unknown if page.parent == ROOT or ROOT / "docs" in page.parents
            ]
        elif shown not in COMING and (fault := understood(words)) is not None:
            faults.append(f"{shown}: {fault}")
    assert faults == []


@pytest.mark.parametrize(
    "shown",
    [
        "mst fly",
        "mst run",
        "mst run a.yaml b.yaml",
        "mst run a.yaml --sped 3",
        "mst grade latest --runner",
        "mst fleet x",
    ],
)
def test_a_wrong_command_is_noticed(shown):
    fault = understood(shlex.split(shown)[1:])
    assert fault or shown == "mst run"  # arguments that lack are looked for when it runs


def test_commands_that_are_coming_are_not_there_yet():
    assert [shown for shown in COMING if understood(shlex.split(shown)[1:]) is None] == []


def test_commands_are_found_in_blocks_and_sentences():
    text = "Say `mst show latest` or\n```sh\n$ mst run x.yaml && mst ls  # both\nMST_STORE=/s mst worker\n```\n"
    assert list(commands(text)) == ["mst run x.yaml", "mst ls  # both", "mst worker", "mst show latest"]


def test_the_page_of_commands_is_what_the_commands_say():
    # in a process of its own: a command that was used by itself before keeps no `-h`, which is the group's
    show = "import runpy, sys; sys.stdout.write(runpy.run_path('scripts/cli_reference.py')['page']())"
    said = subprocess.run([sys.executable, "-c", show], cwd=ROOT, capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert said.stdout == page, "docs/reference/cli.md is out of date: make docs"


def test_every_command_is_on_the_page_but_hidden_ones():
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    for name in cli.list_commands(click.Context(cli)):
        assert f"## mst {name}\n" in text
    assert not any(f"## mst {name}\n" in text for name in HIDDEN)


def test_every_page_of_the_documentation_is_in_its_index():
    index = (ROOT / "docs" / "index.md").read_text() + (ROOT / "docs" / "adr" / "README.md").read_text()
    pages = [page for page in PAGES if ROOT / "docs" in page.parents and page.name not in {"index.md", "README.md"}]
    assert [relative(page) for page in pages if f"{page.name})" not in index] == []


def test_the_readme_shows_the_two_commands():
    blocks = "\n".join(FENCE.findall((ROOT / "README.md").read_text()))
    assert re.search(r"^make demo\b", blocks, re.MULTILINE)
    assert re.search(r"^make test\b", blocks, re.MULTILINE)
