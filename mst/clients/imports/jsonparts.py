"""Large JSON files in parts: the members of an object and the items of its arrays, one at a time, with their places.

What is decoded at a time is one item, found by the ordinary decoder: it says where an item ends, and is asked again
with more text while the item is not whole.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from mst.clients.imports.records import MAX_RECORD_BYTES, ImportFault

CHUNK_BYTES = 1024 * 1024
_SPACE = re.compile(r"[ \t\r\n]*")


class JsonParts:
    """A forward reader. Every method leaves it behind what it read.

    Args:
        stream: of bytes, from the beginning.
        name: of the file, for messages.
        most: bytes of one value.

    Raises:
        ImportFault: by all methods: not JSON, cut off, or a value that is too large.
    """

    def __init__(self, stream: BinaryIO, name: str, *, most: int = MAX_RECORD_BYTES) -> None:
        self._stream = stream
        self._name = name
        self._most = most
        self._decoder = json.JSONDecoder()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._offset = 0
        self._ended = False
        self._fill(CHUNK_BYTES)
        if self._text.startswith("\ufeff"):
            self._take(1)

    def opens(self, sign: str) -> bool:
        """Whether the next value is an array (`[`) or an object (`{`); its inside comes next if it is."""
        if self._next() != sign:
            return False
        self._take(1)
        return True

    def members(self) -> Iterator[str]:
        """Keys of the object that was opened; whoever iterates reads each value before the next key."""
        for _ in self._inside("}"):
            key, _at, _length = self.value()
            if not isinstance(key, str) or self._next() != ":":
                raise self._fault("not valid JSON")
            self._take(1)
            yield key

    def items(self) -> Iterator[tuple[Any, int, int]]:
        """Items of the array that was opened, each with its byte offset and length."""
        for _ in self._inside("]"):
            yield self.value()

    def value(self) -> tuple[Any, int, int]:
        """The next value with its byte offset and length."""
        self._next()
        wanted = CHUNK_BYTES
        while True:
            found = self._decoded()
            if found is not None:
                at = self._offset
                return found[0], at, self._take(found[1])
            if len(self._text) - self._at > self._most:
                raise self._fault(f"damaged, or a value of more than {self._most // 1024**2} MB")
            if self._ended:
                raise self._fault("cut off, or not valid JSON")
            wanted *= 2
            self._fill(wanted)

    def _decoded(self) -> tuple[Any, int] | None:
        """The value at this place and its length in characters; None when it is not whole, or no JSON."""
        try:
            value, end = self._decoder.raw_decode(self._text, self._at)
        except ValueError:
            return None
        except RecursionError as error:
            raise self._fault("nested too deep") from error
        if end == len(self._text) and not self._ended and not isinstance(value, str | dict | list):
            return None  # a number may go on
        return value, end - self._at

    def _take(self, characters: int) -> int:
        """Go on by some characters; how many bytes they are."""
        taken = self._text[self._at : self._at + characters]
        length = len(taken) if taken.isascii() else len(taken.encode())
        self._at += characters
        self._offset += length
        return length

    def _inside(self, closing: str) -> Iterator[None]:
        first = True
        while True:
            sign = self._next()
            if sign == closing:
                self._take(1)
                return
            if not first:
                if sign != ",":
                    raise self._fault("not valid JSON" if sign else "cut off")
                self._take(1)
                if self._next() == closing:
                    raise self._fault("not valid JSON")
            first = False
            yield

    def _next(self) -> str:
        """The next character that is no space, not taken; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            if found is not None:
                self._take(found.end() - self._at)
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._fill(CHUNK_BYTES)

    def _fill(self, wanted: int) -> None:
        """Forget what was read, and have at least so many characters, as far as there are any."""
        parts = [self._text[self._at :]]
        self._at = 0
        have = len(parts[0])
        while have < wanted and not self._ended:
            piece = self._stream.read(CHUNK_BYTES)
            self._ended = not piece
            try:
                parts.append(self._utf8.decode(piece, final=self._ended))
            except UnicodeDecodeError as error:
                raise self._fault("not UTF-8 text") from error
            have += len(parts[-1])
        self._text = "".join(parts)

    def _fault(self, what: str) -> ImportFault:
        return ImportFault(f"{self._name}: {what} (at byte {self._offset})")


def parse(data: bytes, where: str) -> Any:
    """One value that was found before.

    Raises:
        ImportFault: no longer JSON.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ImportFault(f"{where}: not valid JSON: {error}") from error
