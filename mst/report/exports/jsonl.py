"""JSON lines: one object per trial, score or preference, with every column; unknown ones are null."""

from __future__ import annotations

import json
from typing import BinaryIO

from mst.report.exports.formats import Asked
from mst.report.exports.tables import ALL
from mst.report.view import RunView


def write(view: RunView, out: BinaryIO, asked: Asked) -> None:
    """Write one table, a line a row."""
    for row in ALL[asked.table].rows(view, asked):
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        out.write(line.encode("utf-8", errors="replace") + b"\n")
