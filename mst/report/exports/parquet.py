"""Parquet through pyarrow: typed columns, each with its meaning as metadata, in row groups of a bounded size."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from mst.errors import UsageError
from mst.report.exports.formats import Asked
from mst.report.exports.tables import ALL, Kind, Row, Table
from mst.report.view import RunView

GROUP_ROWS = 2_000
_TYPES: dict[Kind, str] = {"text": "string", "integer": "int64", "number": "float64", "flag": "bool_"}


def write(view: RunView, out: BinaryIO, asked: Asked) -> None:
    """Write one table.

    Raises:
        UsageError: pyarrow is not installed; names the extra.
    """
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError("Parquet needs the extra: pip install 'mst[parquet]'") from error
    table = ALL[asked.table]
    schema = _schema(arrow, table)
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for group in _groups(table.rows(view, asked)):
            columns = {name: [row[name] for row in group] for name in schema.names}
            writer.write_table(arrow.table(columns, schema=schema))


def _schema(arrow: Any, table: Table) -> Any:
    fields = [
        arrow.field(column.name, getattr(arrow, _TYPES[column.kind])(), metadata={"meaning": column.meaning})
        for column in table.columns
    ]
    return arrow.schema(fields)


def _groups(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while group := list(islice(rows, GROUP_ROWS)):
        yield group
