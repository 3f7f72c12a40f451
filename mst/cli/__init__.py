"""The command line: one module per command, loaded when it is called, so that `mst --help` stays fast."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import click

from mst import __version__
from mst.cli.streams import settle_streams
from mst.errors import InfrastructureError, InvariantError, MstError

COMMANDS = {
    "demo": ("demo", "The main job on an example: collect, grade on Celery, report. No key needed."),
    "init": ("init", "Write a small working eval to edit."),
    "validate": ("validate", "Check an eval before anything is paid."),
    "run": ("run", "Collect and grade an eval."),
    "grade": ("grade", "Grade a stored run again, here or on a fleet."),
    "attach": ("attach", "Go on with a run or a grading whose coordinator is gone."),
    "cancel": ("cancel", "Stop a run or a grading after the units in flight."),
    "ps": ("ps", "Runs and shards in flight."),
    "ls": ("ls", "List runs with their pass rates."),
    "show": ("show", "Show a run's result again."),
    "open": ("open", "Open a run's report in the browser."),
    "diff-identity": ("diff_identity", "Say why two runs or trials cannot be compared."),
    "compare": ("compare", "Hold a second run against a first, and say what changed."),
    "diagnose": ("diagnose", "Why trials failed, and what to do next."),
    "export": ("export", "Write a run's results as JUnit, CSV, Parquet, JSON lines, Markdown or HTML."),
    "store": ("store", "Runs in a result store: list, fetch, push, verify, clear."),
    "judges": ("judges", "Which judges there are, and how far those of a run can be trusted."),
    "stats": ("stats", "Compute a statistic from numbers."),
    "schema": ("schema", "Print the JSON Schema of a file, or of what --json prints."),
    "worker": ("worker", "Run a Celery worker that grades and collects shards."),
    "flower": ("flower", "Watch the fleet in a browser."),
    "fleet": ("fleet", "Keys, health, state and size of a fleet."),
    "images": ("images", "Build worker images."),
    "runner": ("runner", "Prepare a runner on this machine."),
    "doctor": ("doctor", "What works here, what is missing, and the fix."),
}
"""Command to module and one line of help; the modules hold the rest."""
SHOWN = 2000
"""Characters of one line of an error that are printed."""
HIDDEN = {"collect": "shard", "grade-shard": "shard"}


class Lazy(click.Group):
    """A group whose commands are imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Commands that people use, in the order in which they need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name in COMMANDS:
            module = importlib.import_module(f"mst.cli.{COMMANDS[cmd_name][0]}")
            return module.command  # type: ignore[no-any-return]  # by convention of this folder
        if cmd_name in HIDDEN:
            module = importlib.import_module(f"mst.cli.{HIDDEN[cmd_name]}")
            return module.commands[cmd_name]  # type: ignore[no-any-return]  # by convention of this folder
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="mst")
def cli() -> None:
    """Does setup B do the job better than setup A, and how sure are we?

    \b
    mst demo                          see the whole path on an example
    mst init my-eval                  write an eval of your own
    mst run my-eval/eval.yaml         collect and grade it
    mst grade latest --runner celery  grade it again on a fleet
    """


def _mistake(error: click.ClickException) -> str:
    """What is wrong with the arguments, on one line, and where to look."""
    said = " ".join(error.format_message().split()).rstrip(".")
    missing = re.fullmatch(r"Invalid value for (.+?): (?:File|Path|Directory) (.+) does not exist", said)
    if missing:
        return f"{missing[1].strip(chr(39))}: no such file: {missing[2].strip(chr(39))}"
    folder = re.fullmatch(r"Invalid value for .(\w+).: File '(.+)' is a directory", said)
    if folder:
        return _folder_given(*folder.groups())
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and isinstance(context.command, click.Group):
        said = _with_near_command(said, context.command.list_commands(context))
    return f"{said}; see '{context.command_path} --help'" if context is not None else said


def _with_near_command(said: str, known: list[str]) -> str:
    """The nearest command to an unknown one; some releases of click name one for some groups, in their own way."""
    from mst.config.source import nearest

    unknown = re.match(r"No such command '([^']+)'", said)
    return f"{unknown[0]}{nearest(unknown[1], known)}" if unknown else said


def _folder_given(argument: str, folder: str) -> str:
    """That a folder is no file, and the config in it when there is one of the name that `mst init` gives."""
    config = Path(folder) / "eval.yaml"
    hint = f"; did you mean {config}?" if argument == "CONFIG" and config.is_file() else ""
    return f"{argument}: {folder} is a folder, a file is expected{hint}"


def _of_the_machine(error: OSError) -> str:
    """What the machine refused, and where: no code of ours foresaw it here, so there is no better advice."""
    where = " and ".join(str(path) for path in (error.filename, error.filename2) if path is not None)
    what = error.strerror or str(error) or type(error).__name__
    return f"{where}: {what}" if where else what


def main() -> None:
    """Entry point: errors of users and machines are one line each and an exit code; only our own bugs show a trace."""
    settle_streams()
    try:
        code = cli(prog_name="mst", standalone_mode=False)
    except InvariantError:
        raise
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = 2
    except BrokenPipeError:
        code = 0
    except (click.Abort, click.ClickException, KeyboardInterrupt, MstError, OSError) as error:
        said, code = _said_of(error)
        for line in said.splitlines():
            click.echo(f"mst: {_shown(line)}", err=True)
    sys.exit(code if isinstance(code, int) else 0)


def _shown(line: str) -> str:
    """What others wrote may be in it - a name, an answer - and must neither steer a terminal nor fill it."""
    from mst.report.text import visible

    more = len(line) - SHOWN
    return visible(line) if more <= 0 else f"{visible(line[:SHOWN])}... ({more:,} more characters)"


def _said_of(error: BaseException) -> tuple[str, int]:
    """What a command that failed says, and its exit code."""
    if isinstance(error, click.ClickException):
        return _mistake(error), 2
    if isinstance(error, MstError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        return _of_the_machine(error), InfrastructureError.exit_code
    return "interrupted; what was finished is kept", 130
