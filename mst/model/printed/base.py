"""What all that commands print have in common. Unlike stored files they spell out nulls: unknown is visible."""

from __future__ import annotations

from typing import Any

from mst.model.base import Model


class Printed(Model):
    """One document on standard output, or one line of several."""

    def to_print(self) -> dict[str, Any]:
        """As plain JSON types, nulls included."""
        return self.model_dump(mode="json", by_alias=True)
