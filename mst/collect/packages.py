"""Which versions of Python packages a program under test is made of, as this machine has them.

What a function imports while it runs is known only afterwards, and to no one for certain. Known beforehand and cheap
are the package that it comes from, the packages that its own files import, and what all of these declare to need.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from importlib import metadata

from mst.model.identity import short_digest

MOST = 60
"""Packages that are named; what more there are is a hash."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"\bextra\s*==")


@functools.lru_cache(maxsize=64)
def packages_of(modules: tuple[str, ...]) -> str | None:
    """Packages with their versions, by name: those that have these modules, then those that they need; None for none.

    A module of no package is named as such: its code is told by nothing. Blocks: reads what is installed.
    """
    if not modules:
        return None
    owners = metadata.packages_distributions()
    direct = [name for module in modules for name in owners.get(module, ())]
    strangers = [f"{module} (of no package)" for module in modules if module not in owners]
    found = _with_needs(direct)
    named = [f"{name} {version}" for name, version in sorted(found.items())] + strangers
    more = named[MOST:]
    return ", ".join([*named[:MOST], *([f"others {len(more)} ({short_digest(more)})"] if more else [])])


def _with_needs(names: Iterable[str]) -> dict[str, str]:
    """Versions of packages and of what they declare to need, as far as it is installed; without their extras."""
    found: dict[str, str] = {}
    left = list(names)
    while left:
        try:
            distribution = metadata.distribution(left.pop())
        except metadata.PackageNotFoundError:
            continue
        name = re.sub(r"[-_.]+", "-", distribution.name).lower()
        if name not in found:
            found[name] = f"{distribution.version}{_where(distribution)}"
            left += [
                match[0]
                for need in distribution.requires or []
                if not _EXTRA.search(need) and (match := _NAME.match(need))
            ]
    return found


def _where(distribution: metadata.Distribution) -> str:
    """A package in a folder that is being worked on changes without its version."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    return " (editable)" if origin.get("dir_info", {}).get("editable") else ""
