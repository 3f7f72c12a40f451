"""The identity of an attempt: what a variant is on this machine, with what the case gives."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from mst import __version__
from mst.clients.contract import Client, ImportsPackages, StartsPrograms
from mst.collect.packages import packages_of
from mst.collect.programs import program_identity
from mst.config.files import FileSource
from mst.config.registry import plugin_versions
from mst.errors import MstError
from mst.model.base import FileRef
from mst.model.case import Case, Variant
from mst.model.identity import AttemptIdentity, short_digest
from mst.process.environment import search_path
from mst.sandboxes.system import inner_path

Setting = Mapping[str, str | None]
"""The parts of an identity that all trials of one client share."""


def setting_of(variant: Variant, client: Client, files: FileSource) -> Setting:
    """What a variant is on this machine. Blocks: reads the programs' files, once for as long as they do not change."""
    kind = variant.sandbox.get("kind", "none")
    return {
        "client": variant.client,
        "plugin": _plugin(variant.client),
        "options": _unless_empty(variant.client_options),
        "model": variant.model,
        "program": None if kind == "docker" else _programs(client, inside=kind != "none"),
        # Those of an image are told by its digest.
        "packages": None if kind == "docker" else _packages(client, files),
        "servers": _unless_empty(variant.servers),
        "tools": _unless_empty(variant.tools),
        "env": _env(variant.env),
        "files": _files(variant.files),
        "sandbox": _sandbox(variant.sandbox),
        "limits": short_digest(variant.trial_limits),
        "worker": os.environ.get("MST_IMAGE_DIGEST"),
        "mst": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
    }


def identity_of(
    setting: Setting, case: Case, *, prompt: str, image: str | None, solution: bool, input_hash: str | None = None
) -> AttemptIdentity:
    """The identity of one attempt.

    Args:
        setting: see `setting_of`.
        case: as it was collected.
        prompt: as the program got it.
        image: digest of the sandbox's image, if it has one.
        solution: whether the reference solution was part of what was given.
        input_hash: digest of the case's input, where it is known.
    """
    asked = short_digest(case.input) if input_hash is None else input_hash[:16]
    return AttemptIdentity.of(
        {
            **setting,
            "image": image,
            "input": asked,
            # Most prompts are the input as it is; a trial costs little, and so must its identity.
            "prompt": asked if prompt == case.input else short_digest(prompt),
            "fixture": _files(case.fixture or []),
            "setup": _unless_empty(case.setup),
            "solution": _files(case.solution or []) if solution else None,
        }
    )


def _programs(client: Client, *, inside: bool) -> str | None:
    if not isinstance(client, StartsPrograms):
        return None
    usual = inner_path() if inside else search_path()
    found = [program_identity(name, path or usual) for name, path in client.programs().items() if "{{" not in name]
    return "; ".join(found) or None


def _packages(client: Client, files: FileSource) -> str | None:
    if not isinstance(client, ImportsPackages):
        return None
    try:
        return packages_of(tuple(client.modules(files)))
    except MstError:
        # A file that nobody has: the trial says so.
        return None


def _plugin(client: str) -> str | None:
    """Built-in clients have mst's version."""
    versions = plugin_versions([client]) if "/" in client else {}
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or None


def _env(env: Mapping[str, Any]) -> str | None:
    """Names for readers, values as a hash; secrets are names here."""
    return f"{', '.join(sorted(env))} ({short_digest(dict(env))})" if env else None


def _sandbox(sandbox: Mapping[str, Any]) -> str:
    settings = {key: value for key, value in sandbox.items() if key != "kind" and value is not None}
    kind = str(sandbox.get("kind", "none"))
    return f"{kind} ({short_digest(settings)})" if settings else kind


def _files(files: list[FileRef]) -> str | None:
    listed = sorted((file.path, file.sha256, file.executable) for file in files)
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    return f"{count} ({short_digest([list(file) for file in listed])})" if files else None


def _unless_empty(value: Any) -> str | None:
    return short_digest(value) if value else None


def image_of(findings: Mapping[str, Any]) -> str | None:
    """The digest of the image that a sandbox used, from what it found."""
    image = findings.get("image")
    return str(image) if image else None
