"""The report as one HTML file, however large its details are."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from mst.report.exports.formats import Asked
from mst.report.html import write_report
from mst.report.view import RunView


def write(view: RunView, out: BinaryIO, asked: Asked) -> None:  # noqa: ARG001 - as every format
    """Write the page with everything in it."""
    with tempfile.TemporaryDirectory(prefix="mst-export-") as folder:
        page = write_report(view, Path(folder) / "report", inline_max_bytes=sys.maxsize)
        with page.open("rb") as made:
            shutil.copyfileobj(made, out)
