"""The environment of a child: made from nothing, so that a machine's settings and secrets don't leak into a result."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

_FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin"


def search_path() -> str:
    """PATH of this process, then the folder of this Python: tools installed beside mst are found without activation."""
    return os.pathsep.join([os.environ.get("PATH") or _FALLBACK_PATH, str(Path(sys.executable).parent)])


def clean_environment(home: Path, declared: Mapping[str, str] | None = None) -> dict[str, str]:
    """The search path, a private HOME and TMPDIR, a UTF-8 locale, and what was declared; nothing else.

    Args:
        home: a private folder of this trial or grader call, made by `make_home`.
        declared: wins over the rest.
    """
    return {
        "PATH": search_path(),
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "LANG": "C.UTF-8",
        # Otherwise byte code files of imported fixture modules show up as changes of the program under test.
        "PYTHONDONTWRITEBYTECODE": "1",
        **(declared or {}),
    }


def make_home(home: Path) -> Path:
    """Create the private folders that `clean_environment` names. Idempotent."""
    (home / "tmp").mkdir(parents=True, exist_ok=True, mode=0o700)
    return home


def program_fault(name: str, path: str | None = None) -> str | None:
    """Why a program could not be started, or None. A relative path with a slash can't be judged before its folder is.

    Args:
        name: as in argv: a bare name is looked up, an absolute path must be executable.
        path: search path; None means `search_path`.
    """
    if os.sep in name and not Path(name).is_absolute():
        return None
    if shutil.which(name, path=search_path() if path is None else path) is not None:
        return None
    if Path(name).is_absolute():
        return f"{name}: " + ("not executable; set its executable bit" if Path(name).exists() else "no such program")
    return f"{name}: no such program on PATH; install it or give its path"
