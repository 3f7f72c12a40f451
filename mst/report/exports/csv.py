"""CSV (RFC 4180, UTF-8): a header, a row per trial, score or preference; nothing that a spreadsheet would compute."""

from __future__ import annotations

import csv
import io
import re
from typing import BinaryIO

from mst.report.exports.formats import Asked
from mst.report.exports.tables import ALL, Cell, Kind
from mst.report.view import RunView

_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""What spreadsheets take for a formula, full-width forms too; and what would read back as if it had been shielded."""
_SHIELDED = re.compile(r"'(?='*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")


def write(view: RunView, out: BinaryIO, asked: Asked) -> None:
    """Write one table. Unknown cells are empty."""
    table = ALL[asked.table]
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="", write_through=False)
    try:
        writer = csv.writer(text)
        writer.writerow(column.name for column in table.columns)
        for row in table.rows(view, asked):
            writer.writerow(written(row[column.name], column.kind) for column in table.columns)
        text.flush()
    finally:
        text.detach()


def written(cell: Cell, kind: Kind) -> str:
    """A cell's text. Text that a spreadsheet would run as a formula gets an apostrophe in front; numbers never do."""
    if cell is None:
        return ""
    if kind == "flag":
        return "true" if cell else "false"
    if kind != "text":
        return repr(cell)
    text = str(cell)
    return f"'{text}" if _FORMULA.match(text) else text


def unshielded(text: str) -> str:
    """A text cell as it was before an apostrophe was put in front; the inverse of `written` for text."""
    return _SHIELDED.sub("", text, count=1) if _SHIELDED.match(text) else text
