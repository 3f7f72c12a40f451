"""The diff of a trial: a patch in git's format that turns what the program was given into what it left.

Made here rather than by git: no process to start, no git needed where trials run, and nothing in the workspace - ignore
files, attributes, repositories - can hide a change from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mst.collect.baseline import Baseline, Given, is_inside_repository
from mst.collect.export import Export
from mst.collect.shortest import unified

MAX_FILE_BYTES = 1024 * 1024
"""A file larger than this, before or after, is only named."""
MAX_PATCH_BYTES = 4 * 1024 * 1024
"""When the patch has grown to this, the files that follow are only named."""


@dataclass(frozen=True)
class _Side:
    """One file before or after. `text` is None when it can't be shown: binary or too large."""

    mode: str
    text: str | None


def make_patch(baseline: Baseline, left: Export) -> str:
    """The patch, files in order of their paths; empty when nothing changed. Reads the changed files; blocks.

    A file that the export left out is not taken for deleted. Files inside `.git` folders are no part of it.
    """
    after = {ref.path: ref for ref in left.files if not is_inside_repository(ref.path)}
    links = {path: target for path, target in left.links.items() if not is_inside_repository(path)}
    parts: list[str] = []
    size = 0
    for path in sorted({*baseline, *after, *links}):
        given = baseline.get(path)
        ref = after.get(path)
        if path in left.behind:
            continue
        if given is not None and ref is not None and (given.sha256, given.executable) == (ref.sha256, ref.executable):
            continue
        if given is not None and given.link is not None and given.link == links.get(path):
            continue
        readable = size < MAX_PATCH_BYTES
        old = None if given is None else _before(given, readable=readable)
        new = None
        if path in links:
            new = _Side("120000", links[path])
        elif ref is not None:
            new = _Side(_mode(ref.executable), _text(left.folder / path, readable=readable))
        lines = list(_file_patch(path, old, new))
        parts += lines
        size += sum(len(line) + 1 for line in lines)
    return "".join(line + "\n" for line in parts)


def _before(given: Given, *, readable: bool) -> _Side:
    if given.link is not None:
        return _Side("120000", given.link)
    assert given.source is not None
    return _Side(_mode(given.executable), _text(given.source, readable=readable))


def _mode(executable: bool) -> str:
    return "100755" if executable else "100644"


def _text(path: Path, *, readable: bool) -> str | None:
    if not readable or path.stat().st_size > MAX_FILE_BYTES:
        return None
    data = path.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _file_patch(path: str, old: _Side | None, new: _Side | None) -> Iterator[str]:
    # A file that became a link, or the other way round, is one deleted and one made.
    if old is not None and new is not None and old.mode != new.mode and "120000" in {old.mode, new.mode}:
        yield from _file_patch(path, old, None)
        yield from _file_patch(path, None, new)
        return
    before, after = quoted(f"a/{path}"), quoted(f"b/{path}")
    yield f"diff --git {before} {after}"
    if old is None and new is not None:
        yield f"new file mode {new.mode}"
    elif new is None and old is not None:
        yield f"deleted file mode {old.mode}"
    elif old is not None and new is not None and old.mode != new.mode:
        yield f"old mode {old.mode}"
        yield f"new mode {new.mode}"
    if (old is not None and old.text is None) or (new is not None and new.text is None):
        yield f"Binary files {before if old else '/dev/null'} and {after if new else '/dev/null'} differ"
        return
    hunks = list(unified((old.text if old else "") or "", (new.text if new else "") or ""))
    if hunks:
        yield f"--- {_named(before) if old else '/dev/null'}"
        yield f"+++ {_named(after) if new else '/dev/null'}"
        yield from hunks
    elif old is None or new is None:
        # git applies the making or removing of an empty file only with this line.
        empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
        yield f"index {'0' * 40 if old is None else empty}..{'0' * 40 if new is None else empty}"


def quoted(name: str) -> str:
    """A path as git writes it: in quotes with octal escapes when it holds anything but plain characters."""
    if all(" " <= c <= "~" and c not in '"\\' for c in name):
        return name
    special = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    return '"' + "".join(special.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in name.encode()) + '"'


def _named(name: str) -> str:
    # A tab ends a name with spaces, as git and patch expect.
    return f"{name}\t" if " " in name and not name.startswith('"') else name
