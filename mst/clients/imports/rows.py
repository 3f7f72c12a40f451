"""What rows of all formats share: the case's ID at a path of the user's choice."""

from __future__ import annotations

from typing import Any

from mst.clients.imports.records import ImportFault


def case_id_at(row: Any, path: str, where: str) -> str:
    """The value at a dotted path.

    Raises:
        ImportFault: there is none, or it is no name.
    """
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ImportFault(f"{where} has no case ID at {path!r}; see option 'case_id'")
    return str(value)
