"""A row of a CSV file as a case: columns are keys, dots go inside, cells are texts unless the key says otherwise."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from pydantic.alias_generators import to_snake

INSIDE = {"input", "expected", "metadata", "client_options"}
"""Keys that a column may go into: `expected.answer`, `metadata.cluster`."""
INTEGERS = {"trials", "judge_reps"}
NUMBERS = {"pass_threshold"}


OTHER_SEPARATORS = ";\t|"
"""What spreadsheets of some countries put between cells."""


def separator_fault(header: Sequence[str]) -> str | None:
    """What to do about a file whose cells are not separated by commas; None when they are."""
    if len(header) != 1 or (found := next((one for one in OTHER_SEPARATORS if one in header[0]), None)) is None:
        return None
    return f"the cells are separated by {'a tab' if found == chr(9) else repr(found)}; save the file with commas"


def unknown_columns(header: Sequence[str], known: Collection[str]) -> list[str]:
    """Columns that are no key of a case, as a row's data has them."""
    columns = [column.strip() for column in header]
    return [column for column in columns if to_snake(_key(column)) not in known]


def _key(column: str) -> str:
    key, dot, _ = column.partition(".")
    return key if dot and to_snake(key) in INSIDE else column


def row_data(header: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """A row as plain data; empty cells are left out, tags are split at `;` or `,`.

    Raises:
        ValueError: the row has more or fewer cells than the header, a number is none, or two columns claim one key.
    """
    if len(row) != len(header):
        raise ValueError(f"{len(row)} cells, but {len(header)} columns are named in the first line")
    data: dict[str, Any] = {}
    for column, cell in zip(header, row, strict=True):
        if cell == "":
            continue
        key, dot, inside = column.strip().partition(".")
        if dot and to_snake(key) in INSIDE:
            held = data.setdefault(key, {})
            if not isinstance(held, dict):
                raise ValueError(f"columns {key!r} and {column!r} exclude each other")
            held[inside] = cell
        elif key in data:
            raise ValueError(f"columns {key!r} and '{key}.…' exclude each other")
        else:
            data[column.strip()] = _cell(to_snake(column.strip()), cell)
    return data


def _cell(key: str, cell: str) -> Any:
    if key == "tags":
        return [tag.strip() for tag in re.split(r"[;,]", cell) if tag.strip()]
    if key in INTEGERS | NUMBERS:
        try:
            return int(cell) if key in INTEGERS else float(cell)
        except ValueError:
            raise ValueError(f"{key}: {cell!r} is not a number") from None
    return cell
