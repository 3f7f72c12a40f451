"""Hidden: the shard worker's two commands. A supervisor starts them; people do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mst.model.shard import Work


def _command(name: str, work: Work) -> click.Command:
    @click.command(name=name, hidden=True)
    @click.option("--bundle", type=click.Path(path_type=Path, file_okay=False, exists=True), required=True)
    @click.option("--results", type=click.Path(path_type=Path, file_okay=False), required=True)
    @click.option("--digest", required=True, help="Digest of the bundle; every unit names it.")
    @click.option("--attempt", default=None, help="ID of this attempt.")
    @click.pass_context
    def command(ctx: click.Context, bundle: Path, results: Path, digest: str, attempt: str | None) -> None:
        """Work through a bundle; speaks mst.shard/v1 on stdin and stdout."""
        from mst.shards.worker import run_worker

        ctx.exit(run_worker(work, bundle, results, digest=digest, attempt=attempt))

    return command


commands = {"collect": _command("collect", "collect"), "grade-shard": _command("grade-shard", "grade")}
