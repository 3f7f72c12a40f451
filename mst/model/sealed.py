"""Documents that carry the digest of their own bytes, since nothing else tells whether they are as they were."""

from __future__ import annotations

import json
from typing import Annotated, Self

from pydantic import StringConstraints

from mst.errors import CorruptFile, NoChecksum
from mst.model.base import Document, digest_bytes

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
UNSEALED = "0" * 64


class Sealed(Document):
    """A document with a checksum. Its bytes are what `to_json` gives."""

    checksum: Sha256 = UNSEALED
    """SHA-256 of the document's bytes with 64 zeros in this place: nothing else tells whether they are as they were.
    Only in the bytes: zeros in a value that was read."""

    def to_json(self) -> bytes:
        """See `Model.to_json`; with the checksum in it."""
        data = super().to_json()
        return data.replace(_field(UNSEALED), _field(digest_bytes(data)), 1)

    @classmethod
    def from_json(cls, data: bytes | str, place: str) -> Self:
        """See `Document.from_json`.

        Raises:
            CorruptFile: also when the checksum says that some byte is not what was written.
            NoChecksum: there never was one.
        """
        found = super().from_json(data, place)
        raw = data.encode() if isinstance(data, str) else data
        # The first is the field's own: it is written before all that holds names of others' choosing.
        if digest_bytes(raw.replace(_field(found.checksum), _field(UNSEALED), 1)) != found.checksum:
            if cls._is_of_earlier(raw):
                raise NoChecksum(f"{place}: it has no checksum, so nothing tells whether it is as it was")
            raise CorruptFile(f"{place}: its checksum is not that of its bytes")
        return found.model_copy(update={"checksum": UNSEALED})

    @classmethod
    def of_any_version(cls, data: bytes, place: str) -> Self:
        """The same, and what a version before checksums wrote: nothing tells whether that is as it was.

        Raises:
            CorruptFile: as `from_json` does.
        """
        return super().from_json(data, place) if cls._is_of_earlier(data) else cls.from_json(data, place)

    @classmethod
    def _is_of_earlier(cls, data: bytes) -> bool:
        """Whether there never was a checksum: a name that a bit has changed is one that nobody knows."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return False
        known = {field.alias for field in cls.model_fields.values()}
        return isinstance(found, dict) and "checksum" not in found and found.keys() <= known


def _field(checksum: str) -> bytes:
    return b'"checksum":"%s"' % checksum.encode()
