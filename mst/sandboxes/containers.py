"""Containers of a Docker engine on this machine: found, made without rights, removed, reaped."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mst.errors import InfrastructureError
from mst.process.owner import lives, owner

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "mst.owner"
"""Of everything that is made; its value names the process, so that what a dead one left is found."""
KEPT = "-kept"
"""Ends the names of containers that somebody wants to look at: nobody reaps them."""
_ENGINE_S = 60
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def engine() -> DockerClient:
    """The engine of this machine, as `DOCKER_HOST` or Docker's defaults have it.

    Raises:
        InfrastructureError: the library is missing, or no engine answers.
    """
    try:
        import docker  # noqa: PLC0415 - an extra
        from docker.errors import DockerException  # noqa: PLC0415 - as above
    except ImportError as error:
        raise InfrastructureError("the package 'docker' is missing: pip install 'mst[docker]'") from error
    try:
        client = docker.from_env(timeout=_ENGINE_S)
        client.ping()
    except DockerException as error:
        raise InfrastructureError("no Docker engine answers; start it, or set DOCKER_HOST") from error
    return client


def image_id(name: str) -> str:
    """The immutable ID of an image that is here. Nothing is fetched: what is measured is chosen beforehand.

    Raises:
        InfrastructureError: no such image here.
    """
    from docker.errors import DockerException, ImageNotFound  # noqa: PLC0415 - an extra

    try:
        return str(engine().images.get(name).id)
    except ImageNotFound as error:
        raise InfrastructureError(f"{name}: no such image here; docker pull or build it first") from error
    except DockerException as error:
        raise InfrastructureError(f"{name}: the engine does not say: {error}") from error


@cache
def search_path(image: str) -> str:
    """Where programs of an image are looked for, as the image says; Docker's default when it says nothing.

    Args:
        image: its immutable ID.

    Raises:
        InfrastructureError: it is gone.
    """
    from docker.errors import DockerException  # noqa: PLC0415 - an extra

    try:
        declared = engine().images.get(image).attrs["Config"]["Env"] or []
    except DockerException as error:
        raise InfrastructureError(f"{image}: the engine does not say: {error}") from error
    return next((entry.removeprefix("PATH=") for entry in declared if entry.startswith("PATH=")), _PATH)


def make(
    image: str,
    argv: Sequence[str],
    *,
    name: str,
    env: Mapping[str, str],
    cwd: str,
    with_input: bool,
    settings: Mapping[str, Any],
) -> None:
    """Create a container without rights, with a read-only root. Its environment goes through the engine's API.

    Raises:
        InfrastructureError: it can't be made.
    """
    from docker.errors import DockerException  # noqa: PLC0415 - an extra
    from docker.types import LogConfig  # noqa: PLC0415 - as above

    default = {"tmpfs": {"/run": "rw,nosuid,nodev,size=16m"}, "log_config": LogConfig(type="none")}
    try:
        engine().containers.create(
            image,
            list(argv),
            name=name,
            entrypoint=[],
            environment=dict(env),
            working_dir=cwd,
            stdin_open=with_input,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            init=True,
            hostname="mst",
            labels={LABEL: owner()},
            **{**default, **settings},
        )
    except DockerException as error:
        raise InfrastructureError(f"no container could be made: {error}") from error


def remove(name: str) -> dict[str, Any]:
    """End and remove a container; how it had ended: `code` unless it ran, `oom`, `started`. Empty when there is none.

    Raises:
        InfrastructureError: it can't be removed.
    """
    from docker.errors import DockerException, NotFound  # noqa: PLC0415 - an extra

    try:
        container = engine().containers.get(name)
        state = container.attrs["State"]
        container.remove(force=True, v=True)
    except NotFound:
        return {}
    except DockerException as error:
        raise InfrastructureError(f"container {name} could not be removed: {error}") from error
    found = {"oom": bool(state.get("OOMKilled")), "started": not str(state.get("StartedAt", "")).startswith("0001")}
    return found if state.get("Running") else {**found, "code": int(state.get("ExitCode", 0))}


def ask_to_end(name: str) -> None:
    """SIGTERM to everything in a container. Silent when it is gone."""
    from docker.errors import DockerException  # noqa: PLC0415 - an extra

    with contextlib.suppress(DockerException):
        engine().containers.get(name).exec_run(["/bin/sh", "-c", "kill -TERM -1"], detach=True)


def said_by(image: str, argv: Sequence[str]) -> str | None:
    """What a program of an image prints, run without network and rights; None when it fails.

    Raises:
        InfrastructureError: no container can be made.
    """
    from docker.errors import ContainerError, DockerException  # noqa: PLC0415 - an extra

    try:
        said = engine().containers.run(
            image,
            list(argv),
            entrypoint=[],
            remove=True,
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            labels={LABEL: owner()},
        )
    except ContainerError:
        return None
    except DockerException as error:
        raise InfrastructureError(f"no container of {image} could be run: {error}") from error
    return bytes(said).decode(errors="replace")


def reap() -> list[str]:
    """Remove containers of processes that are gone, but those that are kept; their names, sorted. Idempotent."""
    from docker.errors import DockerException  # noqa: PLC0415 - an extra

    gone = []
    for container in engine().containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        name = str(container.name)
        if not name.endswith(KEPT) and not lives(container.labels.get(LABEL, "")):
            with contextlib.suppress(DockerException):
                container.remove(force=True, v=True)
                gone.append(name)
    return sorted(gone)
