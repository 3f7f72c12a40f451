"""Which files of a folder count, and the files that a config lists: inside its folder, real, by content."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mst.config.files import IndexedFiles
from mst.config.source import Keys, Source
from mst.model.base import FileRef

MAX_FILES = 20_000
IGNORED = frozenset({"__pycache__", ".DS_Store"})
"""Left behind by looking at a folder; they would change its content hash."""


@dataclass
class Origin:
    """Where a part of a config was written: what its relative paths mean, and where its faults are.

    Attributes:
        root: the folder that relative paths start from.
        files: index that every file which is read goes into.
        plugins: namespaces that the config lists.
        faults: what was wrong so far, one line each, with place.
    """

    source: Source
    root: Path
    files: IndexedFiles
    plugins: frozenset[str] = frozenset()
    faults: list[str] = field(default_factory=list)

    def fault(self, keys: Iterable[str | int], message: str) -> None:
        """Note a fault at a place."""
        self.faults.append(self.source.fault(keys, message))

    def at(self, source: Source, root: Path) -> Origin:
        """Another file of the same eval; faults go into the same list."""
        return Origin(source=source, root=root, files=self.files, plugins=self.plugins, faults=self.faults)


def listed(origin: Origin, names: Any, keys: Keys, *, one: bool = False) -> list[FileRef]:
    """The files of a `files: [...]` list. A folder stands for all files in it. Faults are noted.

    `one`: a single path stands at `keys` itself, not a list.
    """
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        origin.fault(keys, "should be a list of paths")
        return []
    found: dict[str, FileRef] = {}
    for index, name in enumerate(names):
        for relative in _expand(origin, name, keys if one else (*keys, index)):
            found[relative] = origin.files.add(origin.root, relative)
    return list(found.values())


def folder(origin: Origin, name: str, keys: Keys) -> list[FileRef] | None:
    """The files of a folder, by content, with paths below that folder. None, and a fault, when it cannot be used."""
    path = origin.root / name
    if (why := outside(name)) is not None:
        origin.fault(keys, why)
        return None
    if not path.is_dir():
        origin.fault(
            keys, f"{name!r} is not a folder" if path.exists() else f"no folder {name!r} beside {_here(origin)}"
        )
        return None
    try:
        return [origin.files.add(path, relative) for relative in walk(path)]
    except (ValueError, OSError) as error:
        origin.fault(keys, str(error))
        return None


def one_file(origin: Origin, name: str, keys: Keys) -> FileRef | None:
    """One file by content. None, and a fault, when it cannot be used."""
    refs = listed(origin, [name], keys, one=True) if not (origin.root / name).is_dir() else []
    if not refs and not origin.faults:
        origin.fault(keys, f"{name!r} is a folder; a file is expected")
    return refs[0] if refs else None


def outside(name: str) -> str | None:
    """Why a path may not be used: it leaves the folder that it is relative to."""
    path = Path(name)
    if not name or "\0" in name:
        return "an empty path"
    if path.is_absolute() or ".." in path.parts:
        return f"{name!r} must be relative and stay inside the folder, so that it can be shipped to where it runs"
    return None


def walk(root: Path) -> list[str]:
    """Paths of all files below a folder, sorted.

    Links to files count as their content as long as they stay inside the folder.

    Raises:
        ValueError: a link that leaves the folder or names a folder, a device, a pipe or a socket, or too many files.
        OSError: a folder cannot be read.
    """
    found = sorted(_walk(root.resolve(), root))
    if len(found) > MAX_FILES:
        raise ValueError(f"{root}: more than {MAX_FILES} files")
    return found


def _walk(root: Path, top: Path) -> Iterator[str]:
    pending = [""]
    count = 0
    while pending:
        below = pending.pop()
        with os.scandir(root / below) as entries:
            for entry in entries:
                relative = f"{below}/{entry.name}" if below else entry.name
                if entry.name in IGNORED:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(relative)
                    continue
                _check_file(root, top, relative)
                count += 1
                if count > MAX_FILES:
                    raise ValueError(f"{top}: more than {MAX_FILES} files")
                yield relative


def _check_file(root: Path, top: Path, relative: str) -> None:
    path = root / relative
    shown = top / relative
    if "\\" in relative or any(ord(letter) < 32 for letter in relative):
        raise ValueError(f"{shown}: backslashes and control characters in names are not supported")
    if path.is_symlink():
        target = path.resolve()
        if not target.is_relative_to(root):
            raise ValueError(f"{shown}: a link that leaves its folder; put a copy there instead")
        if not target.exists():
            raise ValueError(f"{shown}: a link to nothing")
        if target.is_dir():
            raise ValueError(f"{shown}: a link to a folder; put a copy there instead")
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{shown}: not an ordinary file")


def _expand(origin: Origin, name: str, keys: Keys) -> list[str]:
    if (why := outside(name)) is not None:
        origin.fault(keys, why)
        return []
    path = origin.root / name
    relative = Path(name).as_posix()
    try:
        if path.is_dir():
            prefix = "" if relative == "." else f"{relative}/"
            return [prefix + below for below in walk(path)]
        if not path.exists():
            origin.fault(keys, f"no file {name!r} beside {_here(origin)}")
            return []
        _check_file(origin.root.resolve(), origin.root, relative)
    except (ValueError, OSError) as error:
        origin.fault(keys, str(error))
        return []
    return [relative]


def _here(origin: Origin) -> str:
    return Path(origin.source.name).name
