"""What options need to work elsewhere: programs' files that are listed, and Python files that travel unlisted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mst.config.listing import Origin, listed
from mst.config.registry import Extension
from mst.config.source import Keys
from mst.model.base import FileRef

LOCAL_CALLABLE = re.compile(r"(?P<path>[^:\0]+\.py):[A-Za-z_][A-Za-z0-9_.]*")
"""`./graders.py:fn`"""


def python_files(
    origin: Origin, extension: Extension, options: dict[str, Any], already: Sequence[FileRef], keys: Keys
) -> list[FileRef]:
    """Files of local callables in the options (`./graders.py:fn`), which travel without being listed."""
    if extension.name != "python":
        return []
    paths = {file.path for file in already}
    found: list[FileRef] = []
    for key, value in options.items():
        match = LOCAL_CALLABLE.fullmatch(value) if isinstance(value, str) else None
        if match is not None and Path(match["path"]).as_posix() not in paths:
            found += listed(origin, [match["path"]], (*keys, key), one=True)
    return found


def check_arguments(origin: Origin, options: dict[str, Any], files: Sequence[FileRef], keys: Keys) -> None:
    """Refuse arguments that name a file beside the config which is not listed: it would be missing where this runs."""
    paths = {file.path for file in files}
    for place, argument in _arguments(options, keys):
        if not argument or argument.startswith(("-", "/")) or "{{" in argument or "\0" in argument:
            continue
        relative = Path(argument).as_posix()
        if relative in paths or len(argument.encode()) > 255:
            continue
        if (origin.root / argument).is_file():
            origin.fault(
                place,
                f"{argument!r} exists beside {Path(origin.source.name).name} but is not listed; add it to 'files', or "
                f"write {{{{workspace}}}}/{relative} for a file of the workspace",
            )


def _arguments(options: dict[str, Any], keys: Keys) -> Iterator[tuple[Keys, str]]:
    lists = [((*keys, "argv"), options.get("argv"))]
    steps = options.get("steps")
    if isinstance(steps, list):
        lists += [((*keys, "steps", index), step) for index, step in enumerate(steps)]
    for place, argv in lists:
        if isinstance(argv, list):
            yield from (((*place, index), part) for index, part in enumerate(argv) if isinstance(part, str))
