"""Which formats there are, and writing a run in one of them to a file or to stdout."""

from __future__ import annotations

import importlib
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from mst.config.files import discard
from mst.errors import InfrastructureError, UsageError
from mst.report.view import RunView

FormatName = Literal["junit", "csv", "parquet", "jsonl", "markdown", "html"]
TableName = Literal["trials", "scores", "preferences"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
TABLES: tuple[TableName, ...] = get_args(TableName)
TABULAR = frozenset({"csv", "parquet", "jsonl"})
BINARY = frozenset({"parquet"})
PER_VARIANT = TABULAR | {"junit"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What to export.

    Attributes:
        table: of the tabular formats.
        variants: only these; all when empty.
    """

    table: TableName = "trials"
    variants: tuple[str, ...] = ()

    def wants(self, variant: str) -> bool:
        """Whether this variant is exported."""
        return not self.variants or variant in self.variants


def check_asked(name: FormatName, asked: Asked, known: Sequence[str]) -> None:
    """Refuse what a format cannot do, before anything is written.

    Raises:
        UsageError: naming the option.
    """
    if asked.table != "trials" and name not in TABULAR:
        raise UsageError(f"--table {asked.table}: {name} has no tables; csv, parquet and jsonl have")
    if asked.variants and name not in PER_VARIANT:
        raise UsageError(f"--variant: {name} always shows the whole run")
    unknown = [variant for variant in asked.variants if variant not in known]
    if unknown:
        raise UsageError(f"--variant {unknown[0]}: the run has {', '.join(known)}")


def write(name: FormatName, view: RunView, out: BinaryIO, asked: Asked) -> None:
    """Write a run in a format. Memory does not grow with the number of trials.

    Args:
        name: of the format.
        view: the run; its documents are read as streams.
        out: takes the bytes, in order; it is not closed.
        asked: which table, which variants.

    Raises:
        UsageError: nothing is graded yet, or the format needs an extra that is not installed; names it.
        CorruptFile: the run's results cannot be read.
    """
    importlib.import_module(f"mst.report.exports.{name}").write(view, out, asked)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears complete under its name, or not at all when the block raises.

    Raises:
        UsageError: its folder is not there.
        InfrastructureError: it cannot be written.
    """
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder; name a file" if path.is_dir() else f"there is no folder {path.parent}; make it first"
        raise UsageError(f"-o {path}: {what}")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise InfrastructureError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        discard(temporary)
