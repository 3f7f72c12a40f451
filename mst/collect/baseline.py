"""What the program under test was given: the state of the workspace before it started, by content.

It lies outside the workspace, so the program can neither see nor move it, whatever it does to repositories of its own.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from mst.config.files import FileSource, hash_file
from mst.errors import ClientError
from mst.model.base import FileRef

SKIPPED_FOLDER = ".git"
"""Inner files of repositories are kept as artifacts but are no part of a diff."""
MAX_ENTRIES = 500_000


@dataclass(frozen=True)
class Given:
    """One file as it was: its digest (of the target for a link), where its bytes are now, and its kind."""

    sha256: str
    source: Path | None
    executable: bool = False
    link: str | None = None


Baseline = Mapping[str, Given]
"""Files by path relative to the workspace."""


def baseline_of_files(placed: Iterable[FileRef], files: FileSource) -> Baseline:
    """The baseline of a workspace that holds just these files: nothing is read or copied."""
    return {file.path: Given(file.sha256, files.locate(file.sha256), file.executable) for file in placed}


def baseline_of_folder(workspace: Path, placed: Iterable[FileRef], files: FileSource, store: Path) -> Baseline:
    """The baseline after set-up commands ran. Bytes that no file source knows are copied into `store`. Blocks."""
    known = {file.sha256 for file in placed}
    given: dict[str, Given] = {}
    for path, entry in walk(workspace):
        if is_inside_repository(path) or not is_portable(path):
            continue
        if entry.is_symlink():
            target = link_target(entry.path)
            given[path] = Given(sha256=target, source=None, link=target)
        elif entry.is_file(follow_symlinks=False):
            sha256 = hash_file(Path(entry.path))
            source = files.locate(sha256) if sha256 in known else _keep(Path(entry.path), store / sha256)
            given[path] = Given(sha256, source, bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR))
    return given


def is_inside_repository(path: str) -> bool:
    """Whether a path lies in some repository's own folder."""
    return SKIPPED_FOLDER in path.split("/")


def is_portable(path: str) -> bool:
    """Whether a path can stand in a record: UTF-8, and a plain relative POSIX path."""
    try:
        path.encode()
        FileRef(path=path, sha256="", size=0)
    except (UnicodeEncodeError, ValidationError):
        return False
    return True


def link_target(place: str) -> str:
    """Where a symbolic link points, as text."""
    return str(Path(place).readlink()).encode(errors="replace").decode()


def walk(folder: Path, too_deep: Callable[[str], None] = lambda _path: None) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every entry below a folder that is not itself a folder, with its relative POSIX path, in sorted order.

    Links are entries, never followed. A folder that its owner may not read is made readable first.

    Args:
        folder: where to look.
        too_deep: told folders whose path is longer than the system takes; what lies in them is passed over.

    Raises:
        ClientError: `agent`: there are more than `MAX_ENTRIES`; nobody wants that many files, and memory is bounded.
    """
    pending = [("", str(folder))]
    room = MAX_ENTRIES
    while pending:
        prefix, place = pending.pop()
        folders = []
        try:
            entries = _entries(place, room + 1)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            too_deep(prefix.rstrip("/"))
            continue
        room -= len(entries)
        if room < 0:
            raise ClientError(f"the workspace holds more than {MAX_ENTRIES} files and folders", "agent")
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append((path + "/", entry.path))
            else:
                yield path, entry
        pending.extend(reversed(folders))


def _entries(place: str, most: int) -> list[os.DirEntry[str]]:
    try:
        found = os.scandir(place)
    except PermissionError:
        Path(place).chmod(0o700)
        found = os.scandir(place)
    with found:
        return list(islice(found, most))


def _keep(path: Path, target: Path) -> Path:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return target
