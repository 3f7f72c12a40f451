"""The list of parts of an image: what was put into it, and what its system has."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import mst


def wheel_parts(wheels: Path) -> list[dict[str, Any]]:
    """Python packages of a folder, by wheel with its digest."""
    found: list[dict[str, Any]] = []
    for wheel in sorted(wheels.glob("*.whl")) if wheels.is_dir() else []:
        name, version = wheel.name.split("-")[:2]
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        part = _part("pypi", name.replace("_", "-").lower(), version)
        found.append({**part, "hashes": [{"alg": "SHA-256", "content": sha256}]})
    return found


def node_parts(context: Path) -> list[dict[str, Any]]:
    """Packages of a folder's `package-lock.json` that its recipe installs: those for Linux."""
    lock = context / "package-lock.json"
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"] if lock.is_file() else {}
    return [
        _part("npm", place.rpartition("node_modules/")[2], str(package["version"]))
        for place, package in sorted(packages.items())
        if place and "linux" in package.get("os", ["linux"]) and "glibc" in package.get("libc", ["glibc"])
    ]


def pinned_parts(context: Path) -> list[dict[str, Any]]:
    """Packages of a folder's `requirements.txt`."""
    pins = context / "requirements.txt"
    text = pins.read_text(encoding="utf-8") if pins.is_file() else ""
    return [_part("pypi", *found) for found in re.findall(r"^([\w.-]+)==([\w.!+-]+)", text, re.MULTILINE)]


def _part(kind: str, name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:{kind}/{name}@{version}"}


def parts_list(added: Sequence[Mapping[str, Any]], system_packages: str) -> dict[str, Any]:
    """The list of parts (CycloneDX 1.5): what was added, and the system's packages by name and version."""
    components: list[Mapping[str, Any]] = list(added)
    for line in system_packages.splitlines():
        name, _, version = line.partition(" ")
        components.append(_part("deb/debian", name, version))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": now,
            "component": {"type": "container", "name": "mst-worker", "version": mst.__version__},
        },
        "components": components,
    }  # fmt: skip
