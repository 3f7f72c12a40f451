"""What is in a result store, as `mst store` prints it."""

from __future__ import annotations

from mst.model.keys import RunId
from mst.model.printed.base import Printed


class StoredRunRow(Printed):
    """A run in a store, by its manifest."""

    eval: str
    run_id: RunId
    generation: int
    complete: bool
    latest: bool
    files: int
    bytes: int
    """Of the run's own objects: what a regrade shares with its source is counted there."""
    pushed_at: str


class StoredRunsDocument(Printed):
    """`mst store ls`."""

    store: str
    runs: list[StoredRunRow]
    wrong: list[str]
    """Why some cannot be read."""


class FetchedDocument(Printed):
    """`mst store fetch`."""

    store: str
    run_id: RunId
    path: str


class PushedDocument(Printed):
    """`mst store push`."""

    store: str
    eval: str
    run_id: RunId
    generation: int


class WrongObject(Printed):
    """An object that is not as it was written."""

    key: str
    what: str
    mend: str
    """What to do about it."""


class VerifiedDocument(Printed):
    """`mst store verify`."""

    store: str
    runs: int
    """How many were checked."""
    wrong: list[WrongObject]
    unproven: list[str] = []
    """Keys of records of earlier versions, which wrote no checksum: nothing tells whether they are as they were."""


class RemovedObject(Printed):
    """An object that no manifest lists."""

    key: str
    bytes: int
    why: str


class StoreClearedDocument(Printed):
    """`mst store gc`."""

    store: str
    dry_run: bool
    removed: list[RemovedObject]
    wrong: list[str]
    """Why of some evals nothing was removed."""
