"""`mst stats`."""

from __future__ import annotations

import json
import sys

import click


@click.command(name="stats")
@click.argument("kind", required=False)
@click.option(
    "--json", "inputs", metavar="INPUTS", default=None, help="Inputs as a JSON object, @FILE, or - for stdin."
)
def command(kind: str | None, inputs: str | None) -> None:
    """Compute a statistic from numbers; without KIND, list the kinds.

    What is undefined is null, with its reason beside it.

    \b
    mst stats
    mst stats mcnemar_exact --json '{"only_a_pass": 12, "only_b_pass": 4}'
    """
    from mst.errors import UsageError
    from mst.stats import kinds

    if kind is None:
        for found in kinds.describe():
            click.echo(f"{found['kind']:28} {found['about']}")
            for name, meaning in found["inputs"].items():
                click.echo(f"{'':30}{name}: {meaning}")
        return
    if inputs is None:
        raise UsageError(f"mst stats {kind}: give its inputs with --json '{{...}}'")
    from mst.judges import strictjson

    try:
        given = strictjson.loads(_text(inputs))
    except ValueError as error:
        raise UsageError(f"--json: {error}; put the object in single quotes, or name a file as @FILE") from None
    if not isinstance(given, dict):
        raise UsageError("--json: an object of inputs by name was expected")
    click.echo(json.dumps(kinds.compute(kind, given), indent=2))


def _text(inputs: str) -> str:
    from pathlib import Path

    from mst.errors import UsageError

    if inputs == "-":
        return sys.stdin.read()
    if inputs.startswith("@"):
        try:
            return Path(inputs[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--json {inputs}: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise UsageError(f"--json {inputs}: cannot be read: it is no UTF-8 text") from None
    return inputs
