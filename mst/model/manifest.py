"""`mst.manifest/v1`: the list of files that is written last, and without which a run or a shard does not exist."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints, model_validator
from pydantic.dataclasses import dataclass

from mst.model.base import Document, Model, RelativePath
from mst.model.keys import ObjectKey, RunId
from mst.model.sealed import Sealed, Sha256

MANIFEST_FORMAT = "mst.manifest/v1"
PACK_FORMAT = "mst.pack/v1"

DispatchName = Annotated[str, StringConstraints(pattern=r"^d[1-9]\d*$")]
Size = Annotated[int, Field(ge=0, le=2**53)]


class ManifestFile(Model):
    """One file of a run or shard: where it goes, what its bytes are, and which object holds them."""

    path: RelativePath
    """In the run folder; for a shard, `units/<name>` and what lies beside the units."""
    size: Size
    sha256: Sha256
    object: ObjectKey | None = None
    """Key in the store. Left out when it is the run's own `blobs/<sha256>`."""
    executable: bool = False


class Pack(Model):
    """Many small files in one object, with an index object that lists them (`PackHeader`, then a `PackEntry` each)."""

    sha256: Sha256
    size: Size
    index_sha256: Sha256
    index_size: Size
    files: Annotated[int, Field(ge=1)]
    """How many the index lists."""
    first: RelativePath
    """The least path in the index, by code points."""
    last: RelativePath
    """The greatest."""
    object: ObjectKey | None = None
    """Key of the pack. Left out when it is the run's own `packs/<sha256>`."""
    index_object: ObjectKey | None = None
    """Key of the index. Left out when it is the run's own `indexes/<sha256>`."""


class PackHeader(Document):
    """The first line of a pack's index."""

    FORMAT: ClassVar[str] = PACK_FORMAT
    KIND: ClassVar[str] = "packIndex"
    format: Literal["mst.pack/v1"] = "mst.pack/v1"
    kind: Literal["packIndex"] = "packIndex"

    pack: Sha256
    pack_size: Size
    files: Size


_PART = r"(?:[^/\\\x00.][^/\\\x00]*|\.[^/\\\x00.][^/\\\x00]*|\.\.[^/\\\x00]+)"
PackPath = Annotated[str, StringConstraints(pattern=rf"^{_PART}(?:/{_PART})*$")]
"""What `RelativePath` allows, as a pattern: checked a hundred thousand times in one fetch."""


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="ignore", use_attribute_docstrings=True))
class PackEntry:
    """Every further line of a pack's index: one file. In order of offset, then path.

    Thousands are in memory at once: a dataclass takes a quarter of a model's memory, and half of its time.
    """

    path: PackPath
    size: Size
    sha256: Sha256
    offset: Size
    length: Size
    """Bytes in the pack; in this version the same as `size`."""
    executable: bool = False


class SourceRun(Model):
    """The run that a regrade reads: its files stay objects of that run, and are listed here so that they are kept."""

    run_id: RunId
    generation: int = Field(ge=1)
    manifest_sha256: Sha256
    files: list[ManifestFile] = []
    packs: list[Pack] = []


class _Manifest(Sealed):
    """What manifests of both kinds say."""

    FORMAT: ClassVar[str] = MANIFEST_FORMAT
    format: Literal["mst.manifest/v1"] = "mst.manifest/v1"

    eval_name: str
    run_id: RunId
    created_at: AwareDatetime
    complete: bool
    """Nothing that was planned is missing."""
    closed: bool = False
    """Made by a coordinator that closed the shard, not by a worker that finished it."""
    counts: dict[str, Size] = {}
    """Whatever its maker counted, by name: `units`, `graded`, `failed`, `trials`."""
    machine: dict[str, Any] | None = None
    """Where it was made: `id`, `image`, `startedAt`, `endedAt`."""
    versions: dict[str, str] = {}
    """`mst`, and plugins by package name."""
    files: list[ManifestFile] = []
    packs: list[Pack] = []

    @model_validator(mode="after")
    def _paths_are_distinct(self) -> Self:
        seen = {file.path for file in self.files}
        if len(seen) != len(self.files):
            raise ValueError("a path is listed twice")
        return self


class RunManifest(_Manifest):
    """`manifest.<generation>.json`: one state of a run. The highest valid one is the run."""

    KIND: ClassVar[str] = "run"
    kind: Literal["run"] = "run"

    generation: int = Field(ge=1)
    predecessor: Sha256 | None = None
    """SHA-256 of the bytes of the generation that this one replaces; none for the first."""
    source: SourceRun | None = None
    """For a regrade."""


class ShardManifest(_Manifest):
    """`shards/<i>/manifest.json`: how a shard of a dispatch ended. Created once."""

    KIND: ClassVar[str] = "shard"
    kind: Literal["shard"] = "shard"

    dispatch: DispatchName
    shard: int = Field(ge=0)
    bundle_digest: Sha256
    author: str = Field(min_length=1)
    """Who committed it: a worker's whole attempt ID, or an ID that the closing coordinator drew. Tells "mine" from
    "another's" when the reply to a commit was lost."""
    attempts: list[str] = []
    """Attempt IDs whose units are listed."""


class RegradeClaim(Sealed):
    """`claim.json`: takes the number of a regrade before any work is done on it."""

    FORMAT: ClassVar[str] = MANIFEST_FORMAT
    KIND: ClassVar[str] = "claim"
    format: Literal["mst.manifest/v1"] = "mst.manifest/v1"
    kind: Literal["claim"] = "claim"

    run_id: RunId
    claimant: str = Field(min_length=1)
    """Unique to the process that claims, so that it recognises its own claim."""
    created_at: AwareDatetime
