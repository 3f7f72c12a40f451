"""Documents that carry the digest of their own bytes, since nothing else tells whether they are as they were."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import StringConstraints

from mst.errors import CorruptFile
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
        """
        found = super().from_json(data, place)
        raw = data.encode() if isinstance(data, str) else data
        # The first is the field's own: it is written before all that holds names of others' choosing.
        if digest_bytes(raw.replace(_field(found.checksum), _field(UNSEALED), 1)) != found.checksum:
            raise CorruptFile(f"{place}: its checksum is not that of its bytes")
        return found.model_copy(update={"checksum": UNSEALED})


def _field(checksum: str) -> bytes:
    return b'"checksum":"%s"' % checksum.encode()
