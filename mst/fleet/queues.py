"""Names of queues. A worker of another version, class or image never consumes a message that it could not run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mst.errors import UsageError
from mst.model.shard import Work

IMAGE_DIGITS = 12
_CLASS = re.compile(r"[a-z][a-z0-9-]{0,31}")
_VERSION = re.compile(r"[A-Za-z0-9.+!-]{1,64}")
_DIGEST = re.compile(r"(?:[a-z0-9./:_-]+@)?(?:sha256:)?([0-9a-f]{64})")


def queue_name(work: Work, *, mst_version: str, worker_class: str | None = None, image: str | None = None) -> str:
    """`mst.<work>[.<class>].<mst version>[.<image digest, 12 hex>]`.

    Args:
        work: what its workers do.
        mst_version: theirs and the coordinator's.
        worker_class: a kind of machine, e.g. `gpu`.
        image: the image that its workers run, by digest.

    Raises:
        UsageError: a class or digest of another form.
    """
    parts = ["mst", work]
    if worker_class is not None:
        if not _CLASS.fullmatch(worker_class):
            raise UsageError(f"class {worker_class!r}: lower-case letters, digits and dashes, starting with a letter")
        parts.append(worker_class)
    if not _VERSION.fullmatch(mst_version):
        raise UsageError(f"mst version {mst_version!r} can't be part of a queue's name")
    parts.append(mst_version)
    if image is not None:
        parts.append(digest_of(image).removeprefix("sha256:")[:IMAGE_DIGITS])
    return ".".join(parts)


def served_queues(
    works: Iterable[Work], *, mst_version: str, worker_class: str | None = None, image: str | None = None
) -> list[str]:
    """The queues of a worker: those of its version, and those for its image alone when it knows which that is."""
    images = (None,) if image is None else (None, image)
    return [
        queue_name(work, mst_version=mst_version, worker_class=worker_class, image=one)
        for work in works
        for one in images
    ]


def digest_of(image: str) -> str:
    """An image's digest as `sha256:<64 hex digits>`, from that, from the digits, or from NAME@DIGEST.

    Raises:
        UsageError: it has another form, such as a tag, which may be moved.
    """
    found = _DIGEST.fullmatch(image)
    if found is None:
        raise UsageError(f"image {image!r}: name it by its digest (sha256:<64 hex digits>)")
    return f"sha256:{found[1]}"
