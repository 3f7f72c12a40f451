"""Reading a diff in git's format: which files changed, and by how many lines. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_PLAIN = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass
class FileChange:
    """One file of a diff."""

    path: str
    added: int = 0
    removed: int = 0
    binary: bool = False


def changes_of(diff: str) -> list[FileChange]:
    """The files of a diff, in its order. Lines are counted inside hunks only; a file that is listed twice is one."""
    found: dict[str, FileChange] = {}
    current = FileChange("")
    git = False  # whether the file that is read was named by a line of git's own
    old = new = 0
    # Not splitlines: a form feed inside a line of a source file ends no line of the diff.
    for line in diff.split("\n"):
        if old > 0 or new > 0:
            current.added += line[:1] == "+"
            current.removed += line[:1] == "-"
            old -= line[:1] not in ("+", "\\")
            new -= line[:1] not in ("-", "\\")
        elif line.startswith("diff --git "):
            path = _path(line.removeprefix("diff --git "))
            current, git = found.setdefault(path, FileChange(path)), True
        elif line.startswith(("--- ", "+++ ")) and not git and line[4:] != "/dev/null":
            path = _side(line[4:])
            current = found.setdefault(path, FileChange(path))
        elif hunk := _HUNK.match(line):
            old, new = (1 if count is None else int(count) for count in hunk.groups())
            current = found.setdefault(current.path, current)
        elif line.startswith(("Binary files ", "GIT binary patch")):
            current.binary = True
    return list(found.values())


def _path(names: str) -> str:
    """The path out of `a/path b/path`; of a rename the new one."""
    if names.endswith('"'):
        start = names.rfind(' "') + 1
        return _side(names[start:])
    half = len(names) // 2
    if names[half : half + 1] == " " and names[2:half] == names[half + 3 :]:
        return names[half + 3 :]
    return _side(names.rpartition(" b/")[2] if " b/" in names else names)


def _side(name: str) -> str:
    if name.startswith('"') and name.endswith('"'):
        raw = _ESCAPE.sub(_unescaped, name[1:-1].encode("utf-8", "surrogateescape"))
        name = raw.decode("utf-8", "surrogateescape")
    return name[2:] if name[:2] in ("a/", "b/") else name


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255]) if len(code) == 3 else _PLAIN.get(code, code)
