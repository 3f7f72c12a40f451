"""A look for secrets in every layer of an image, also in files that a later layer deletes."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

CHUNK_BYTES = 1024 * 1024
OVERLAP_BYTES = 4096
FINDINGS_MAX = 20

# The AWS key that is left out is the one of AWS's own documentation.
PATTERNS: dict[str, re.Pattern[bytes]] = {
    "a private key": re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\r?\n[A-Za-z0-9+/=\r\n]{64}"),
    "an age key": re.compile(rb"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    "a signing key of mst": re.compile(rb'"privateKey":\s*"[A-Za-z0-9+/]{43}="'),
    "an AWS key": re.compile(rb"\bAKIA(?!IOSFODNN7EXAMPLE)[0-9A-Z]{16}\b(?![0-9A-Z])"),
    "a GitHub token": re.compile(rb"\bgh[pousr]_[A-Za-z0-9]{36}\b"),
    "a model provider's key": re.compile(rb"\bsk-(?:ant|proj)-[A-Za-z0-9_-]{40,}"),
    "a broker URL with its password": re.compile(rb"\brediss?://[A-Za-z0-9_.-]*:[A-Za-z0-9_%-]{16,}@[A-Za-z0-9.-]+"),
}
HINTS: dict[str, tuple[bytes, ...]] = {
    "an AWS key": (b"AKIA",),
    "a GitHub token": (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
    "a model provider's key": (b"sk-ant-", b"sk-proj-"),
    "a broker URL with its password": (b"redis://", b"rediss://"),
}
"""Without one of these a pattern is not found. Looking for them first is five times as fast; images have gigabytes."""
SAMPLES = re.compile(r"/site-packages/(botocore|boto3|google)/|/(tests?|examples)/|/usr/lib/[^/]+/lib[^/]+\.so[.\d]*$")
"""Where libraries keep made-up keys, for their documentation and self-tests. Secret values are looked for there too."""


def scan_image(archive: Path, *, secret_values: Sequence[str] = ()) -> list[str]:
    """Look through what `docker save` wrote. Each finding names the file and what was found, never the value.

    Reads streaming, in memory that does not grow with the image. At most 20 findings.
    """
    values = [value.encode() for value in secret_values if len(value) >= 8]
    findings: list[str] = []
    with tarfile.open(archive) as image:
        for outer in image:
            stream = image.extractfile(outer) if outer.isfile() else None
            if stream is None:
                continue
            findings += _scan_member(outer.name, stream, values)
            if len(findings) >= FINDINGS_MAX:
                break
    return findings[:FINDINGS_MAX]


def _scan_member(name: str, stream: IO[bytes], values: Sequence[bytes]) -> list[str]:
    """A layer is a tar file of its own; everything else in the archive is a description of the image."""
    try:
        layer = tarfile.open(fileobj=stream)  # noqa: SIM115 - closed below; failing to open is an answer
    except tarfile.ReadError:
        stream.seek(0)
        return [f"{name}: {what}" for what in found_in(stream, values)]
    findings: list[str] = []
    with layer:
        for member in layer:
            content = layer.extractfile(member) if member.isfile() else None
            if content is not None:
                patterns = {} if SAMPLES.search(f"/{member.name}") else PATTERNS
                findings += [f"{member.name}: {what}" for what in found_in(content, values, patterns)]
    return findings


def found_in(
    stream: IO[bytes], values: Sequence[bytes] = (), patterns: Mapping[str, re.Pattern[bytes]] = PATTERNS
) -> list[str]:
    """What of the patterns and values a stream holds, each named once."""
    found: dict[str, None] = {}
    for window in _windows(stream):
        found |= dict.fromkeys(
            what for what, pattern in patterns.items() if _may_hold(window, what) and pattern.search(window)
        )
        if any(value in window for value in values):
            found["a value that is secret here"] = None
    return list(found)


def _may_hold(window: bytes, what: str) -> bool:
    hints = HINTS.get(what)
    return hints is None or any(hint in window for hint in hints)


def _windows(stream: IO[bytes]) -> Iterator[bytes]:
    """Pieces that overlap, so that nothing is missed where two meet."""
    rest = b""
    while chunk := stream.read(CHUNK_BYTES):
        yield rest + chunk
        rest = (rest + chunk)[-OVERLAP_BYTES:]
