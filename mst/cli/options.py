"""Options that several commands share, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mst.store.contract import Store

F = TypeVar("F", bound=Callable[..., Any])

output_dir = click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".mst-results"),
    show_default=True,
    help="Results root.",
)
secrets_file = click.option(
    "--secrets-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    default=None,
    help="JSON object or dotenv lines; the only secrets that reach another process or machine.",
)
results = click.option(
    "--results", metavar="URI", default=None, help="Result store of runs: file:PATH, s3://BUCKET/PREFIX, gs://..."
)


def _known_conditions(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The conditions as given; a wrong one is refused before anything is paid, not when the gate is asked."""
    from mst.report.gates import parse_conditions

    parse_conditions(values)
    return values


fail_on = click.option(
    "--fail-on",
    multiple=True,
    callback=_known_conditions,
    metavar="CONDITION",
    help="Exit 1 on: any-failure, worse, regression, not-better, cannot-tell, never. May be given several times.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")


def runner_options(function: F) -> F:
    """`--runner NAME` and `--runner-option KEY=VALUE`."""
    function = click.option(
        "--runner-option",
        "runner_option",
        multiple=True,
        metavar="KEY=VALUE",
        help="Option of the runner, e.g. shards=3.",
    )(function)
    return click.option("--runner", default="local", show_default=True, help="Where: local, process, docker, celery.")(
        function
    )


def read_runner_options(pairs: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` pairs by key.

    Raises:
        UsageError: not of that form, given twice, or a URL with a password: those stand in every process list.
    """
    from mst.errors import UsageError

    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--runner-option {pair!r}: KEY=VALUE was expected")
        if key in found:
            raise UsageError(f"--runner-option {key}: given twice")
        if "://" in value and "@" in value.partition("://")[2].partition("/")[0]:
            raise UsageError(
                f"--runner-option {key}: a URL with a password must not stand in an argument, where every user of the "
                "machine can read it; set MST_BROKER_URL or MST_STORE in the environment instead"
            )
        found[key] = value
    return found


def open_results(uri: str | None) -> Store:
    """The store that `--results` names, else MST_STORE.

    Raises:
        UsageError: neither does; or the URI is wrong.
    """
    from mst.cli.warned import tell_warnings
    from mst.config.settings import Settings
    from mst.errors import UsageError
    from mst.store.uri import open_store

    tell_warnings()
    found = uri or Settings.from_environment().store
    if not found:
        raise UsageError("which store? give --results URI or set MST_STORE")
    return open_store(found, notice=lambda line: click.echo(f"mst: {line}", err=True))


def is_fancy() -> bool:
    """Whether colour and moving progress are welcome: on a terminal, outside CI, unless NO_COLOR is set."""
    import sys

    return sys.stderr.isatty() and not os.environ.get("CI") and not os.environ.get("NO_COLOR")
