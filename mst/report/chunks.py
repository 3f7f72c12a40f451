"""Details of cases, written as they come into files of about a megabyte, so that memory stays flat."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

INLINE_MAX_BYTES = 10 * 1024 * 1024
"""Details up to this size go into the page itself; more are loaded from files beside it when they are looked at."""

CHUNK_BYTES = 1024 * 1024

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def script_json(value: Any) -> str:
    """JSON that means the same inside a script element, whatever strings are in it: no markup survives in it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)


class ChunkWriter:
    """Collects entries by key. Each chunk is a JSON object of entries; a chunk's number is what the index keeps.

    Use as a context manager: the temporary folder goes when the block ends, whatever happened.
    """

    def __init__(self, data: Path, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._data = data
        self._folder = data / f".tmp-{secrets.token_hex(8)}"
        self._chunk_bytes = chunk_bytes
        self._pending: list[str] = []
        self._pending_bytes = 0
        self._digest = hashlib.sha256()
        self.count = 0
        self.total_bytes = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._data.is_dir() and not any(self._data.iterdir()):
            self._data.rmdir()

    def add(self, key: str, entry: Any) -> int:
        """Keep an entry and say in which chunk it will be found."""
        text = f"{json.dumps(key)}:{script_json(entry)}"
        number = self.count
        self._pending.append(text)
        self._pending_bytes += len(text.encode())
        if self._pending_bytes >= self._chunk_bytes:
            self._flush()
        return number

    def finish(self) -> None:
        """Write what is pending. Nothing is added after this."""
        if self._pending:
            self._flush()

    def texts(self) -> Iterator[tuple[int, str]]:
        """Each chunk's number and JSON text, one in memory at a time."""
        for number in range(self.count):
            yield number, (self._folder / f"{number}.json").read_text(encoding="utf-8")

    def publish(self) -> str:
        """Turn the chunks into scripts under a folder named by their content, and return that name. Atomic.

        A page opened from a disk may load scripts but not read files; so each chunk is a call with the JSON as text.
        """
        for number, text in self.texts():
            _write_durably(self._folder / f"{number}.js", f"mstData({number},{script_json(text)});\n")
            (self._folder / f"{number}.json").unlink()
        name = self._digest.hexdigest()[:16]
        if not (self._data / name).is_dir():
            self._folder.rename(self._data / name)
        return name

    def retire(self, keep: str | None) -> None:
        """Remove the folders of earlier reports; the page no longer refers to them."""
        if not self._data.is_dir():
            return
        for folder in self._data.iterdir():
            if folder.name != keep and folder != self._folder and not folder.name.startswith(".tmp-"):
                shutil.rmtree(folder, ignore_errors=True)

    def _flush(self) -> None:
        text = "{" + ",".join(self._pending) + "}"
        data = text.encode()
        (self._folder / f"{self.count}.json").write_bytes(data)
        self._digest.update(data)
        self.total_bytes += len(data)
        self.count += 1
        self._pending, self._pending_bytes = [], 0


def _write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
