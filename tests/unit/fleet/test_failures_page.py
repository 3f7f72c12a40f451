"""The table of failures names a test for each of its rows, and the test is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/explanation/failures.md"
SHOWN = re.compile(r'\[[^\]]+\]\(([^() ]+) "(test_\w+)"\)')


def rows():
    """The rows of all tables, without headings."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| what", "| ---"))]


def test_every_row_leads_to_a_test_that_is_there():
    assert len(rows()) > 40
    wrong = []
    for row in rows():
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        shown = SHOWN.fullmatch(cells[-1])
        if len(cells) != 4 or shown is None:
            wrong.append(row)
            continue
        path = (PAGE.parent / shown[1]).resolve()
        if not path.is_file() or f"def {shown[2]}(" not in path.read_text():
            wrong.append(f"{shown[1]}: {shown[2]}")
    assert wrong == []
