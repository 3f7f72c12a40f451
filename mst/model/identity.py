"""What must be equal for two attempts to be comparable, and the difference of two such identities in words. Pure.

The identity is of what was collected: who answered, to what, where. What grades it has identities of its own
(`mst.model.case.Identity`), and the number of the trial, its run and its machine's name are no part of it: those are
what repeats differ in.
"""

from __future__ import annotations

from collections.abc import Mapping

from mst.model.base import Model, digest

PARTS: dict[str, str] = {
    "client": "client",
    "plugin": "version of the client's plugin",
    "options": "client options",
    "model": "model",
    "program": "program",
    "packages": "package",
    "servers": "MCP servers",
    "tools": "tools",
    "env": "environment",
    "files": "the variant's files",
    "sandbox": "sandbox",
    "image": "sandbox image",
    "limits": "limits",
    "input": "the case's input",
    "prompt": "prompt",
    "fixture": "the case's files",
    "setup": "the case's set-up commands",
    "solution": "the case's solution",
    "worker": "image of the worker",
    "mst": "mst",
    "python": "python",
    "platform": "platform",
}
"""Parts of an identity, in the order in which they are told, with their names in words."""


class AttemptIdentity(Model):
    """Of one attempt. Two attempts are comparable when their hashes are equal."""

    hash: str
    """SHA-256 over the canonical JSON of the parts."""
    parts: dict[str, str]
    """By name in `PARTS`: short texts; what is long is a hash of 16 digits. A part that does not apply is left out."""

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> AttemptIdentity:
        """Make one from its parts; those without a value do not apply."""
        given = {name: value for name in PARTS if (value := parts.get(name)) is not None}
        return cls(hash=digest(given), parts=given)


def short_digest(value: object) -> str:
    """16 digits of the SHA-256 over a value's canonical JSON: enough to tell texts apart that nobody forges."""
    return digest(value)[:16]


def differing(one: AttemptIdentity, other: AttemptIdentity) -> dict[str, tuple[str | None, str | None]]:
    """The parts in which two identities differ, with both values; None where a side has no such part."""
    if one.hash == other.hash:
        return {}
    return {
        name: (one.parts.get(name), other.parts.get(name))
        for name in dict.fromkeys([*PARTS, *one.parts, *other.parts])
        if one.parts.get(name) != other.parts.get(name)
    }
