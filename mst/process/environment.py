"""The environment of a child: made from nothing, so that a machine's settings and secrets don't leak into a result."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin"


def clean_environment(home: Path, declared: Mapping[str, str] | None = None) -> dict[str, str]:
    """PATH of this machine, a private HOME and TMPDIR, a UTF-8 locale, and what was declared; nothing else.

    Args:
        home: a private folder of this trial or grader call; `home/tmp` must exist or be made by the caller's
            `make_home`.
        declared: wins over the rest.
    """
    return {
        "PATH": os.environ.get("PATH", _FALLBACK_PATH),
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
