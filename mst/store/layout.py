"""Every key of the store's layout, as pure functions of what it is the key of.

<eval>/latest.json
<eval>/clock                                  written to learn the store's time
<eval>/runs/<run>/manifest.<generation>.json   claim.json   blobs/<sha256>   packs/<sha256>   indexes/<sha256>
<eval>/dispatches/<run>/<dispatch>/dispatch.json   plan.json   closed.json   bundles/<sha256>   blobs/<sha256>
    .../shards/<i>/manifest.json   attempts/<attempt ID>/units/<name>   packs/<sha256>   indexes/<sha256>
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mst.errors import UsageError
from mst.model.keys import RUN_ID, segment

_MANIFEST = re.compile(r"manifest\.([1-9]\d{0,8})\.json")


def eval_folder(eval_name: str) -> str:
    """The folder of an eval: its name as one percent-encoded segment."""
    return segment(eval_name)


def runs_folder(eval_name: str) -> str:
    """The folder of an eval's runs."""
    return f"{segment(eval_name)}/runs"


def latest_key(eval_name: str) -> str:
    """The key that names an eval's latest complete run."""
    return f"{segment(eval_name)}/latest.json"


def clock_key(eval_folder: str) -> str:
    """The key, in an eval's folder, whose modification time tells what time it is for the store."""
    return f"{eval_folder}/clock"


def pack_key(folder: str, sha256: str) -> str:
    """A pack of a run's or an attempt's folder."""
    return f"{folder}/packs/{sha256}"


def index_key(folder: str, sha256: str) -> str:
    """The index of a pack."""
    return f"{folder}/indexes/{sha256}"


def generation_of(name: str) -> int | None:
    """The generation that a run manifest's file name tells, None for any other name."""
    found = _MANIFEST.fullmatch(name)
    return int(found[1]) if found else None


def shard_number(name: str) -> int | None:
    """The shard that a folder below `shards/` belongs to, None for any other name."""
    return int(name) if re.fullmatch(r"0|[1-9]\d{0,5}", name) else None


@dataclass(frozen=True)
class RunKeys:
    """Keys of one run.

    Raises:
        UsageError: `run_id` is not a run ID.
    """

    eval_name: str
    run_id: str

    def __post_init__(self) -> None:
        if not RUN_ID.fullmatch(self.run_id):
            raise UsageError(f"{self.run_id[:100]!r} is not a run ID (YYYYMMDDTHHMMSSZ-<6 hex>, .g<n> for a regrade)")

    @property
    def folder(self) -> str:
        """Everything of the run but its dispatches."""
        return f"{runs_folder(self.eval_name)}/{self.run_id}"

    @property
    def claim(self) -> str:
        """Who took this regrade's number."""
        return f"{self.folder}/claim.json"

    @property
    def blobs(self) -> str:
        """The folder of the run's files by content."""
        return f"{self.folder}/blobs"

    @property
    def dispatches(self) -> str:
        """The folder of the run's dispatches."""
        return f"{segment(self.eval_name)}/dispatches/{self.run_id}"

    def manifest(self, generation: int) -> str:
        """One generation of the run's manifest."""
        return f"{self.folder}/manifest.{generation}.json"

    def blob(self, sha256: str) -> str:
        """A file of the run."""
        return f"{self.blobs}/{sha256}"

    def pack(self, sha256: str) -> str:
        """A pack of small files."""
        return pack_key(self.folder, sha256)

    def index(self, sha256: str) -> str:
        """The index of a pack."""
        return index_key(self.folder, sha256)

    def dispatch(self, dispatch: str) -> DispatchKeys:
        """Keys of one of the run's dispatches (`d1`)."""
        return DispatchKeys(self, dispatch)


@dataclass(frozen=True)
class DispatchKeys:
    """Keys of one dispatch."""

    run: RunKeys
    dispatch: str

    @property
    def folder(self) -> str:
        """Everything of the dispatch."""
        return f"{self.run.dispatches}/{self.dispatch}"

    @property
    def record(self) -> str:
        """`dispatch.json`, created once and first."""
        return f"{self.folder}/dispatch.json"

    @property
    def closed(self) -> str:
        """`closed.json`; no worker starts after it."""
        return f"{self.folder}/closed.json"

    @property
    def plan(self) -> str:
        """`plan.json`: the units that were sent, whose digest `dispatch.json` has."""
        return f"{self.folder}/plan.json"

    @property
    def bundles(self) -> str:
        """The folder of shards' inputs."""
        return f"{self.folder}/bundles"

    @property
    def shards(self) -> str:
        """The folder of the dispatch's shards."""
        return f"{self.folder}/shards"

    def bundle(self, sha256: str) -> str:
        """A shard's input."""
        return f"{self.bundles}/{sha256}"

    def blob(self, sha256: str) -> str:
        """A large artifact, copied here for the workers."""
        return f"{self.folder}/blobs/{sha256}"

    def shard(self, shard: int) -> ShardKeys:
        """Keys of one shard."""
        return ShardKeys(self, shard)


@dataclass(frozen=True)
class ShardKeys:
    """Keys of one shard of a dispatch."""

    dispatch: DispatchKeys
    shard: int

    @property
    def folder(self) -> str:
        """Everything of the shard."""
        return f"{self.dispatch.shards}/{self.shard}"

    @property
    def manifest(self) -> str:
        """Created once, last."""
        return f"{self.folder}/manifest.json"

    @property
    def attempts(self) -> str:
        """The folder of the shard's attempts; the folders below it are attempt IDs."""
        return f"{self.folder}/attempts"

    def attempt(self, attempt: str) -> str:
        """Everything of one attempt."""
        return f"{self.attempts}/{attempt}"

    def units(self, attempt: str) -> str:
        """The folder of an attempt's units."""
        return f"{self.attempt(attempt)}/units"

    def unit(self, attempt: str, name: str) -> str:
        """A unit's file, or one that lies beside it. Immutable."""
        return f"{self.units(attempt)}/{name}"
