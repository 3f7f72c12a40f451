"""Packs: many small files in one object and an index object that says whose bytes are where.

The format is in docs/reference/packs.md. Indexes are read and written line by line; of a pack only what goes into one
request is in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import SEEK_END, BytesIO
from json.encoder import encode_basestring

from pydantic import TypeAdapter, ValidationError

from mst.errors import CorruptFile
from mst.model.manifest import Pack, PackEntry, PackHeader

SMALL_BYTES = 1024 * 1024
"""Files up to this size go into packs."""
PACK_BYTES = 4 * 1024 * 1024
LATER_PACK_BYTES = 8 * 1024 * 1024
EARLY_PACKS = 32
"""So many packs of a push are of the lesser size; the others are of the larger one."""
PACK_FILES = 8192
INDEX_MAX_BYTES = 16 * 1024 * 1024
LINES_MAX_BYTES = INDEX_MAX_BYTES - 1024
"""Of an index, without its first line."""
RANGE_BYTES = 4160 * 1024
"""A pack of the larger size is two of them, wherever between two small files the cut falls."""
RANGE_FILES = 2048
"""Tiny files: what is known of each takes more memory than its bytes."""
GAP_BYTES = 256 * 1024
"""Unused bytes between two files that are read rather than split into two requests."""
PARSED_BYTES = 64 * 1024
"""Lines of an index that are parsed at once."""
_LINE = TypeAdapter(PackEntry)
_LINES = TypeAdapter(list[PackEntry])
_NOT_NAMES = frozenset(("", ".", ".."))


@dataclass(frozen=True, slots=True)
class Packed:
    """A pack and its index, ready to be sent.

    Attributes:
        data: the pack's bytes, which lie in `space`.
        index: the index's bytes.
        pack: what a manifest says of the two; without keys.
        space: see `Packer.give_back`.
    """

    data: memoryview
    index: bytes
    pack: Pack
    space: BytesIO


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring files of a pack that are read with one request."""

    start: int
    length: int
    entries: tuple[PackEntry, ...]


class Packer:
    """Collects files until a pack is full. Holds one pack in memory, and the space of those that were given back.

    Not thread-safe, but for `give_back`.
    """

    def __init__(self, *, pack_bytes: int = PACK_BYTES, later_bytes: int = LATER_PACK_BYTES) -> None:
        self._sizes = (pack_bytes, later_bytes)
        self._done = 0
        self._space: list[BytesIO] = []
        self._begin()

    def add(self, path: str, data: bytes, sha256: str, *, executable: bool = False) -> Packed | None:
        """Put a file in. The same content is kept once within a pack.

        Returns:
            The pack that was full before this file, if it was.

        Raises:
            ValueError: the path is not plain and relative, or not Unicode.
        """
        size, known, full = len(data), self._offsets.get(sha256), None
        more = size if known is None else 0
        start = self._size if known is None else known
        # A name that no reader accepts is never written, nor an index.
        line = index_line(check_path(path), size, sha256, start, executable)
        if self._lines and (
            self._size + more > self._most_bytes
            or len(self._lines) >= PACK_FILES
            or self._index_bytes + len(line) > LINES_MAX_BYTES
        ):
            full = self.finish()
            known, start = None, 0
            line = index_line(path, size, sha256, start, executable)
        self._lines.append((start, path, line))
        self._index_bytes += len(line)
        if known is None:
            self._offsets[sha256] = start
            self._data.write(data)
            self._size += size
        return full

    def finish(self) -> Packed | None:
        """What is in so far as a pack, None when that is nothing; the next pack begins."""
        if not self._lines:
            return None
        data = self._data.getbuffer()[: self._size]
        self._lines.sort()
        paths = [path for _, path, _ in self._lines]
        header = PackHeader(pack=hashlib.sha256(data).hexdigest(), pack_size=len(data), files=len(paths))
        lines = b"".join([line for _, _, line in self._lines])
        found, pack = _finished(header, lines, first=min(paths), last=max(paths))
        self._done += 1
        space = self._data
        self._begin()
        return Packed(data, found, pack, space)

    def give_back(self, packed: Packed) -> None:
        """Let a later pack use the space of one that has been sent, whose bytes nobody may read any more.

        New space costs more than the bytes that are put there: the system clears each page when it is first touched.
        """
        try:
            packed.data.release()
            packed.space.seek(0, SEEK_END)
            packed.space.truncate()  # Changes nothing, and is refused while a request that was given up still holds it.
        except BufferError:
            return
        packed.space.seek(0)
        self._space.append(packed.space)

    def _begin(self) -> None:
        self._data = self._space.pop() if self._space else BytesIO()
        self._size = 0
        self._offsets: dict[str, int] = {}
        self._lines: list[tuple[int, str, bytes]] = []
        self._index_bytes = 0
        self._most_bytes = self._sizes[self._done >= EARLY_PACKS]


class PackIndex:
    """Builds an index line by line."""

    def __init__(self, pack_sha256: str, pack_size: int) -> None:
        self._sha256 = pack_sha256
        self._size = pack_size
        self._lines = bytearray()
        self._first: str | None = None
        self._last = ""

    def add(self, entry: PackEntry) -> None:
        """The next entry, in order of offset, then path."""
        path = entry.path
        self._lines += index_line(path, entry.size, entry.sha256, entry.offset, entry.executable)
        if self._first is None or path < self._first:
            self._first = path
        self._last = max(self._last, path)

    def finish(self, *, files: int) -> tuple[bytes, Pack]:
        """The index's bytes, and what a manifest says of it and its pack."""
        header = PackHeader(pack=self._sha256, pack_size=self._size, files=files)
        return _finished(header, self._lines, first=self._first or "", last=self._last)


def _finished(header: PackHeader, lines: bytes | bytearray, *, first: str, last: str) -> tuple[bytes, Pack]:
    """An index's bytes, and what a manifest says of it and its pack."""
    data = header.to_json() + b"\n" + lines
    pack = Pack(
        sha256=header.pack,
        size=header.pack_size,
        index_sha256=hashlib.sha256(data).hexdigest(),
        index_size=len(data),
        files=header.files,
        first=first,
        last=last,
    )
    return data, pack


def check_path(path: str) -> str:
    """A path that `PackEntry` accepts.

    Raises:
        ValueError: it is not one.
    """
    if not _NOT_NAMES.isdisjoint(path.split("/")) or "\\" in path or "\0" in path:
        raise ValueError(f"{path!r} is not a plain relative path")
    return path


def index_line(path: str, size: int, sha256: str, offset: int, executable: bool) -> bytes:
    """What an index says of a file."""
    more = ',"executable":true' if executable else ""
    where = f'"size":{size},"sha256":"{sha256}","offset":{offset},"length":{size}'
    return f'{{"path":{encode_basestring(path)},{where}{more}}}\n'.encode()


def read_index(index: bytes, place: str, *, pack: str, pack_size: int, files: int) -> Iterator[PackEntry]:
    """The entries of an index, one at a time, in order. The first line is checked before this returns.

    Args:
        index: its bytes, which have the digest that they should have.
        place: named in errors.
        pack: SHA-256 of the pack that it must be of.
        pack_size: the pack's size.
        files: how many it lists.

    Raises:
        CorruptFile: a line that is wrong, out of order or outside the pack; lines missing; another pack's index.
        FormatError: of another major version.
    """
    end = index.find(b"\n") + 1
    header = PackHeader.from_json(index[:end], place)
    if (header.pack, header.pack_size) != (pack, pack_size):
        raise CorruptFile(f"{place}: is the index of another pack, {header.pack}")
    if header.files != files:
        raise CorruptFile(f"{place}: lists {header.files} files instead of {files}")
    return _entries(index, end, header, place)


def _entries(index: bytes, start: int, header: PackHeader, place: str) -> Iterator[PackEntry]:
    number, last_offset, last_path = 0, 0, ""
    for entry in _parsed(index, start, place):
        number += 1
        offset, size = entry.offset, entry.size
        if entry.length != size:
            raise CorruptFile(f"{place}, line {number + 1}: length and size differ")
        in_order = offset > last_offset or (offset == last_offset and entry.path > last_path)
        if not in_order or offset + size > header.pack_size:
            raise CorruptFile(f"{place}, line {number + 1}: out of order, or outside the pack")
        yield entry
        last_offset, last_path = offset, entry.path
    if number != header.files:
        raise CorruptFile(f"{place}: lists {number} files instead of {header.files}")


def _parsed(index: bytes, start: int, place: str) -> Iterator[PackEntry]:
    """The lines, many parsed with one call: one call for each is a good part of what a file costs to fetch."""
    number = 1
    while start < len(index):
        end = index.rfind(b"\n", start, start + PARSED_BYTES) + 1 or index.find(b"\n", start) + 1
        if not end:
            raise CorruptFile(f"{place}, line {number + 1}: is cut")
        lines = index[start:end]
        try:
            yield from _LINES.validate_json(b"[%s]" % lines[:-1].replace(b"\n", b","))
        except ValidationError:
            yield from _each_line(lines, number, place)
        number += lines.count(b"\n")
        start = end


def _each_line(lines: bytes, number: int, place: str) -> Iterator[PackEntry]:
    """One by one, which tells the line that is wrong."""
    for more, line in enumerate(lines.splitlines(keepends=True), 1):
        try:
            yield _LINE.validate_json(line)
        except ValidationError as error:
            raise CorruptFile(f"{place}, line {number + more}: {_fault(error)}") from error


def _fault(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return "path is not a plain relative path" if first["loc"] == ("path",) else first["msg"]


def windows(entries: Iterable[PackEntry], *, range_bytes: int = RANGE_BYTES) -> Iterator[Window]:
    """Entries in order of offset, grouped into ranges that are read at once.

    A range has at most `range_bytes`, or one file, and `RANGE_FILES` files. Small gaps between files are read over.
    """
    group: list[PackEntry] = []
    start = end = 0
    for entry in entries:
        offset = entry.offset
        stop = offset + entry.length
        if group and (stop - start > range_bytes or offset - end > GAP_BYTES or len(group) == RANGE_FILES):
            yield Window(start, end - start, tuple(group))
            group = []
        if not group:
            start = end = offset
        group.append(entry)
        end = max(end, stop)
    if group:
        yield Window(start, end - start, tuple(group))
