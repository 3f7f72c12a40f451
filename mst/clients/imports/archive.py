"""Members of a zip archive, bounded; also those compressed with Zstandard, which Python's own reader does not know."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

import zstandard

from mst.clients.imports.records import MAX_RECORD_BYTES, MAX_RECORDS, ImportFault

ZSTANDARD = 93
LOCAL_HEADER = struct.Struct("<4s5H3I2H")


class Archive:
    """A zip file with its directory read. Every read opens the file anew, so several threads may read at once.

    Raises:
        ImportFault: no zip file, cut off, damaged, or with too many members.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        try:
            with zipfile.ZipFile(path) as opened:
                self._members = {info.filename: info for info in opened.infolist()}
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise ImportFault(f"{name}: damaged or cut off: its directory of samples cannot be read") from error
        if len(self._members) > MAX_RECORDS:
            raise ImportFault(f"{name}: more than {MAX_RECORDS:,} members")

    @property
    def names(self) -> list[str]:
        """Members in the order of the directory."""
        return list(self._members)

    def read(self, member: str) -> bytes:
        """A member whole.

        Raises:
            ImportFault: missing, damaged, or more than 100 MB.
        """
        info = self._members.get(member)
        if info is None:
            raise ImportFault(f"{self._name}: has no {member}")
        if info.file_size > MAX_RECORD_BYTES:
            raise ImportFault(f"{self._name}: {member} has more than {MAX_RECORD_BYTES // 1024**2} MB")
        try:
            with self._path.open("rb") as stream:
                data = self._unpacked(info, stream)
        except (
            OSError,
            zipfile.BadZipFile,
            zlib.error,
            zstandard.ZstdError,
            struct.error,
            EOFError,
            ValueError,
        ) as error:
            raise ImportFault(f"{self._name}: {member} is damaged") from error
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise ImportFault(f"{self._name}: {member} is damaged: its checksum differs")
        return data

    def _unpacked(self, info: zipfile.ZipInfo, stream: BinaryIO) -> bytes:
        if info.compress_type != ZSTANDARD:
            with zipfile.ZipFile(self._path) as opened, opened.open(info) as member:
                return member.read(MAX_RECORD_BYTES + 1)
        stream.seek(info.header_offset)
        header = LOCAL_HEADER.unpack(stream.read(LOCAL_HEADER.size))
        if header[0] != b"PK\x03\x04":
            raise zipfile.BadZipFile("no local header")
        stream.seek(info.header_offset + LOCAL_HEADER.size + header[9] + header[10])
        packed = stream.read(info.compress_size)
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed), read_across_frames=True)
        return reader.read(MAX_RECORD_BYTES + 1)
