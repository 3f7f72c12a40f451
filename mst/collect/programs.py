"""Which program it was: its version where the machine knows it without starting it, and the digest of its file.

A script's file is often the same in every version of its package, so the version is looked up in the package that owns
it: a Python package by its list of files, an npm package by its `package.json`.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
from pathlib import Path

from mst.config.files import hash_file

_SEARCHED_PARENTS = 6


def program_identity(name: str, path: str) -> str:
    """A program in words: name, version if known, digest; that it is unknown where no file can be found.

    Blocks: reads the file once for as long as it does not change.

    Args:
        name: as in argv.
        path: search path for a bare name.
    """
    shown = Path(name).name
    if os.sep in name and not Path(name).is_absolute():
        return f"{shown} (in the workspace)"
    found = shutil.which(name, path=path)
    if found is None:
        return f"{shown} (not found)"
    place = Path(found).resolve()
    try:
        status = place.stat()
        digest = _digest(place, status.st_mtime_ns, status.st_size)
        version = _version(Path(found), place, status.st_mtime_ns)
    except OSError as error:
        return f"{shown} (cannot be read: {error.strerror})"
    return f"{shown} {f'{version} ' if version else ''}sha256 {digest[:16]}"


@functools.lru_cache(maxsize=256)
def _digest(place: Path, _mtime_ns: int, _size: int) -> str:
    return hash_file(place)


@functools.lru_cache(maxsize=256)
def _version(found: Path, place: Path, _mtime_ns: int) -> str | None:
    return _python_version(found, place) or _npm_version(place)


def _python_version(found: Path, place: Path) -> str | None:
    """The version of the Python package that put a program beside its interpreter."""
    for prefix in dict.fromkeys((found.parent.parent, place.parent.parent)):
        for record in prefix.glob("lib/python3*/site-packages/*.dist-info/RECORD"):
            if re.search(rf"(?m)/bin/{re.escape(found.name)},", record.read_text(errors="replace")):
                return record.parent.name.removesuffix(".dist-info").rpartition("-")[2]
    return None


def _npm_version(place: Path) -> str | None:
    """The version of the npm package that a file lies in."""
    if "node_modules" not in place.parts:
        return None
    for folder in list(place.parents)[:_SEARCHED_PARENTS]:
        described = folder / "package.json"
        if described.is_file():
            version = json.loads(described.read_bytes()).get("version")
            if version:
                return str(version)
        if folder.name == "node_modules":
            return None
    return None
