"""Copying what a trial left out of its workspace: bounded, plain files only, and every omission told."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

from mst.collect.baseline import Baseline, is_portable, link_target, walk
from mst.errors import ClientError
from mst.model.base import FileRef
from mst.model.case import TrialLimits
from mst.process.redact import Redactor
from mst.process.removal import remove_tree

_CHUNK_BYTES = 1024 * 1024
_NAMED_OMISSIONS = 20
_LISTED_FACTOR = 4
_TOO_LONG = "its path is too long"
MAX_DEPTH = 100
"""Folders in folders that artifacts may have: whoever reads them later, with whatever tool, must not fall over it."""


@dataclass
class Export:
    """What was copied.

    Attributes:
        folder: holds the files under their relative paths.
        files: sorted by path.
        links: symbolic links with their targets; they are told here and in the diff, never copied or followed.
        omitted: paths that exist and were not copied, with the reason; the first few.
        omitted_count: how many there are in all.
        redacted: paths of files from which secrets were removed.
        behind: of the given files, those that exist and were not copied: they were not deleted.
        is_gone: the program removed the workspace itself, or put something else in its place: nothing was copied.
    """

    folder: Path
    given: Baseline
    files: list[FileRef] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)
    omitted_count: int = 0
    redacted: list[str] = field(default_factory=list)
    behind: set[str] = field(default_factory=set)
    is_gone: bool = False

    def omit(self, path: str, reason: str) -> None:
        """Note that a path stays behind."""
        self.omitted_count += 1
        if path in self.given and path not in self.links:
            self.behind.add(path)
        if len(self.omitted) < _NAMED_OMISSIONS:
            # Names that are not UTF-8 must not break the record that carries them.
            self.omitted[path.encode(errors="replace").decode()] = reason

    def notes(self) -> dict[str, object]:
        """What a reader of the artifacts must know, for the record's diagnostics; empty when everything was copied."""
        found: dict[str, object] = {}
        if self.omitted_count:
            found["omitted"] = self.omitted
            found["omittedCount"] = self.omitted_count
        if self.is_gone:
            found["workspace"] = "the program removed it, or put something else in its place"
        if self.redacted:
            found["redactedFiles"] = self.redacted
        return found


def export(
    workspace: Path, into: Path, *, limits: TrialLimits, baseline: Baseline, redactor: Redactor, timeout_s: float
) -> Export:
    """Copy a workspace's plain files. What the program was given comes first, so that a flood can't crowd it out.

    Blocks. Nothing may be running in the workspace any more. A workspace that is gone counts as empty: what a program
    does to its workspace is its answer. One that became a link leads elsewhere, and nothing there is its answer.

    Raises:
        ClientError: `environment`: time is over, or the disk is full.
    """
    _clear(into)
    into.mkdir(parents=True)
    found = Export(into, baseline, is_gone=not _is_folder(workspace))
    if found.is_gone:
        return found
    deadline = time.monotonic() + timeout_s
    room = limits.artifact_bytes
    try:
        for path, place in _plain_files(workspace, baseline, found, limits.artifact_files):
            if time.monotonic() > deadline:
                raise ClientError("the export did not end in time (stage_timeouts.export_s)")
            if redactor and path not in baseline and redactor.text(path) != path:
                found.omit(path, "its name holds a secret")
                continue
            if len(found.files) >= limits.artifact_files:
                found.omit(path, f"more than {limits.artifact_files} files (artifact_files)")
                continue
            ref = _copy(path, place, found, room=room, deadline=deadline)
            if ref is None:
                continue
            # What the program was given holds no secret of the run; rewriting it would change the case.
            given = baseline.get(path)
            if redactor and (given is None or given.sha256 != ref.sha256):
                ref = _redact(ref, found, redactor)
            room -= ref.size
            found.files.append(ref)
    except OSError as error:
        raise ClientError(f"the export failed: {error.strerror}") from error
    found.files.sort(key=lambda file: file.path)
    if redactor:
        # before they are lines of a patch, in which a value of several lines is no longer found
        safe = {path: redactor.text(to) for path, to in found.links.items() if redactor.text(path) == path}
        found.links = safe
    return found


def _is_folder(path: Path) -> bool:
    """Whether it is a folder itself, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def _clear(into: Path) -> None:
    """Remove what a program without a sandbox may have put where its files go."""
    if _is_folder(into):
        remove_tree(into)
    else:
        into.unlink(missing_ok=True)


def _plain_files(workspace: Path, baseline: Baseline, found: Export, most: int) -> list[tuple[str, str]]:
    """Paths of plain files, given ones first, then in order. Everything else is noted."""
    given: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for path, entry in walk(workspace, lambda folder: found.omit(folder, _TOO_LONG)):
        if not is_portable(path):
            found.omit(path, "its name can't be stored")
        elif path.count("/") > MAX_DEPTH:
            found.omit(path, f"more than {MAX_DEPTH} folders deep")
        elif entry.is_symlink():
            if len(found.links) < most:
                found.links[path] = link_target(entry.path)
            found.omit(path, "a symbolic link")
        elif not entry.is_file(follow_symlinks=False):
            found.omit(path, "not a plain file")
        elif path in baseline:
            given.append((path, entry.path))
        elif len(others) < most * _LISTED_FACTOR:
            others.append((path, entry.path))
        else:
            found.omit(path, "too many files")
    return given + others


def _copy(path: str, place: str, found: Export, *, room: int, deadline: float) -> FileRef | None:
    try:
        source = _open(place)
    except OSError as error:
        found.omit(path, f"can't be read: {error.strerror}")
        return None
    with os.fdopen(source, "rb") as stream:
        status = os.fstat(source)
        if status.st_size > room:
            found.omit(path, "over the limit of bytes (artifact_bytes)")
            return None
        target = found.folder / path
        digest = hashlib.sha256()
        size = 0
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            opened = target.open("wb")
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            found.omit(path, _TOO_LONG)
            return None
        with opened as sink:
            while piece := stream.read(_CHUNK_BYTES):
                size += len(piece)
                if time.monotonic() > deadline:
                    raise ClientError("the export did not end in time (stage_timeouts.export_s)")
                if size > room:
                    break
                digest.update(piece)
                sink.write(piece)
    if size > room:
        target.unlink()
        found.omit(path, "over the limit of bytes (artifact_bytes)")
        return None
    executable = bool(status.st_mode & stat.S_IXUSR)
    if executable:
        target.chmod(0o755)
    return FileRef(path=path, sha256=digest.hexdigest(), size=size, executable=executable)


def _redact(ref: FileRef, found: Export, redactor: Redactor) -> FileRef:
    target = found.folder / ref.path
    data = target.read_bytes()
    clean = redactor.data_bytes(data)
    if clean == data:
        return ref
    target.write_bytes(clean)
    found.redacted.append(ref.path)
    return ref.model_copy(update={"sha256": hashlib.sha256(clean).hexdigest(), "size": len(clean)})


def _open(place: str) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(place, flags)
    except PermissionError:
        Path(place).chmod(0o600)
        return os.open(place, flags)
