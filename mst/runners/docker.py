"""The `docker` runner: each shard in a container of a local engine, over the same protocol."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from mst.errors import InfrastructureError, UsageError
from mst.model.base import Model
from mst.runners.process import ParallelOptions, ProcessRunner
from mst.sandboxes.containers import engine, image_id, reap
from mst.sandboxes.options import Size
from mst.shards.container_channel import ContainerChannel, Keep, Machine
from mst.shards.contract import Channel, RunnerContext, ShardSpec

_NETWORKS: dict[str, str] = {"none": "none", "open": "bridge"}


class DockerOptions(ParallelOptions):
    """`--runner-option` of the docker runner."""

    image: str = Field(min_length=1)
    """With this version of mst in it; by digest, or by a name whose digest is recorded."""
    cpus: float | None = Field(default=None, gt=0)
    """Of one container."""
    memory: Size | None = None
    """Of one container: `2g`."""
    network: Literal["none", "open"] = "open"
    """Judges and clients need one to reach their models."""
    keep: Keep = "never"
    """Which containers stay when their shard has ended, for a look into them: `never`, `failed`, `always`."""


class DockerRunner(ProcessRunner):
    """See `mst.shards.contract.Runner`. Limits and supervision are those of the process runner."""

    Options: ClassVar[type[Model]] = DockerOptions

    def __init__(self, options: DockerOptions, run_id: str, image: str) -> None:
        super().__init__(options)
        self._given = options
        self._run_id = run_id
        self._image = image

    @classmethod
    def open(cls, options: DockerOptions, context: RunnerContext) -> Self:  # type: ignore[override]  # its own options
        """Find the engine and the image, and remove containers whose coordinator is gone.

        Raises:
            UsageError: no such image here.
            InfrastructureError: no engine answers, or the package is missing.
        """
        engine()
        try:
            image = image_id(options.image)
        except InfrastructureError as error:
            raise UsageError(f"runner docker: image {error}") from error
        reap()
        return cls(options, context.run_id, image)

    def recorded_options(self) -> dict[str, Any]:
        """See `Runner.recorded_options`; with the ID that the image's name stood for."""
        return {**self._given.model_dump(exclude_none=True), "image_id": self._image}

    def _channel(self, spec: ShardSpec, attempt: int) -> Channel:
        options = self._given
        machine = Machine(
            image=self._image,
            network=_NETWORKS[options.network],
            cpus=options.cpus,
            memory_bytes=options.memory,
            environment={"MST_IMAGE_DIGEST": self._image},
        )
        name = f"mst-{self._run_id.lower()}-{spec.work}-{spec.index}-{attempt}"
        return ContainerChannel(machine, name=name, keep=options.keep)
