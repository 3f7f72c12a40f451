"""Names of queues. A worker of another version, class or image never consumes a message that it could not run."""

from __future__ import annotations

import re

from mst.errors import UsageError
from mst.model.shard import Work

IMAGE_DIGITS = 12
_CLASS = re.compile(r"[a-z][a-z0-9-]{0,31}")
_VERSION = re.compile(r"[A-Za-z0-9.+!-]{1,64}")
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


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
        found = _DIGEST.fullmatch(image)
        if found is None:
            raise UsageError(f"image {image!r}: name it by its digest (sha256:<64 hex digits>)")
        parts.append(found[1][:IMAGE_DIGITS])
    return ".".join(parts)
