"""Names of the things that a run is made of, and of the folders they live in."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Annotated
from urllib.parse import quote

from pydantic import AfterValidator, StringConstraints

from mst.model.base import Model

RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}(\.g[1-9]\d*)?")
"""`YYYYMMDDTHHMMSSZ-<6 hex>`, and `.g<n>` for a regrade."""

SEGMENT_MAX_BYTES = 200

RunId = Annotated[str, StringConstraints(pattern=rf"^{RUN_ID.pattern}$")]

OBJECT_KEY_MAX_BYTES = 900
"""S3 and GCS allow 1024 bytes for prefix and key together."""
OBJECT_SEGMENT = re.compile(r"[A-Za-z0-9_%~!'()=+@,-][A-Za-z0-9_%~!'()=+@,.-]{0,254}")
OBJECT_KEY = re.compile(rf"{OBJECT_SEGMENT.pattern}(?:/{OBJECT_SEGMENT.pattern})*")


def is_object_key(name: str) -> bool:
    """Whether a name can be a key of a result store: see `mst.store.contract.check_key`."""
    return len(name) <= OBJECT_KEY_MAX_BYTES and OBJECT_KEY.fullmatch(name) is not None


def _check_object_key(value: str) -> str:
    if not is_object_key(value):
        raise ValueError(f"{value[:200]!r} is not a key of a store")
    return value


ObjectKey = Annotated[str, AfterValidator(_check_object_key)]


class TrialKey(Model):
    """One variant on one case, numbered from 0."""

    variant: str
    case_id: str
    trial: int

    def __str__(self) -> str:
        return f"{self.variant}/{self.case_id}/{self.trial}"


class ComparisonKey(Model):
    """One candidate against the baseline on one case."""

    candidate: str
    case_id: str

    def __str__(self) -> str:
        return f"{self.candidate} vs baseline/{self.case_id}"


@lru_cache(maxsize=4096)
def segment(name: str) -> str:
    """A name as one path segment: percent-encoded, at most 200 bytes, never `.` or `..`.

    Longer names are cut and end with `~` and 16 hex digits of the name's SHA-256, so they stay distinct.
    """
    encoded = quote(name, safe="!'()~-_. ").replace(" ", "%20")
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if encoded.endswith("."):
        encoded = encoded[:-1] + "%2E"
    if len(encoded) <= SEGMENT_MAX_BYTES:
        return encoded
    return f"{encoded[: SEGMENT_MAX_BYTES - 17]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def short_id(run_id: str) -> str:
    """The form that people type: the 6 hex digits, with `.g<n>` for a regrade."""
    return run_id.split("-", 1)[1]


def source_stem(run_id: str) -> str:
    """The run ID without a regrade's `.g<n>`."""
    return run_id.split(".", 1)[0]


def run_order(run_id: str) -> tuple[str, int]:
    """What run IDs are sorted by: the run, then the number of its grading, so that `.g10` comes after `.g9`."""
    return source_stem(run_id), regrade_number(run_id)


def regrade_number(run_id: str) -> int:
    """1 for the original grading, n for `.g<n>`."""
    _, _, number = run_id.partition(".g")
    return int(number) if number else 1
