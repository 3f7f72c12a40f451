"""Building worker images: every package at the coordinator's version, a list of parts, a look for secrets, a digest.

Nothing is downloaded inside of the build: wheels are fetched here, where the coordinator's versions are known, and the
image installs them without an index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import mst
from mst.errors import RefusedError, RunnerError, UsageError
from mst.runners.image_fetch import fetch_agents, fetch_wheels
from mst.runners.image_parts import node_parts, parts_list, pinned_parts, wheel_parts
from mst.runners.image_scan import scan_image

Kind = Literal["base", "judges", "agents", "proxy"]
EXTRAS: dict[str, tuple[str, ...]] = {
    "base": ("fleet", "s3", "gcs", "aws", "metrics"),
    "judges": ("fleet", "s3", "gcs", "aws", "metrics", "judges"),
}
BUILD_S = 1800.0
PARTS = "/usr/share/mst/sbom.cdx.json"
"""Where an image has its list of parts."""
_MARKERS = """
import json, os, platform, sys
print(json.dumps({
    "python_version": "%d.%d" % sys.version_info[:2], "python_full_version": platform.python_version(),
    "os_name": os.name, "sys_platform": sys.platform, "platform_system": platform.system(),
    "platform_machine": platform.machine(), "implementation_name": sys.implementation.name,
    "platform_python_implementation": platform.python_implementation(),
}))
"""
"""Run inside of the base, which has no package of ours."""
_DIGEST = re.compile(r"(?:[a-z0-9./:_-]+@)?sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class ImageOrder:
    """What to build.

    Attributes:
        base: the image to build on, by digest; a local image's ID will do.
        plugins: packages of an eval's plugins and judges, as pip names them, at the versions that are installed here.
        secret_values: none of these may be in a layer.
        recipes: the folder `worker_images`.
    """

    kind: Kind
    base: str
    tag: str | None = None
    plugins: Sequence[str] = ()
    secret_values: Sequence[str] = field(default=(), repr=False)
    recipes: Path


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """A finished image.

    Attributes:
        digest: its ID; the digest in a registry is another one, which pushing prints.
        parts: packages in its list of parts.
    """

    digest: str
    size_bytes: int
    parts: int
    smoke: str


class Docker:
    """The Docker command line, with the engine that `DOCKER_HOST` or its context names."""

    def __init__(self) -> None:
        program = shutil.which("docker")
        if program is None:
            raise UsageError("docker is not installed here: images are built by a Docker engine")
        self._program = program

    def run(self, *arguments: str, stdin: str | None = None, wait_s: float = 120.0) -> str:
        """Run a command and return what it printed.

        Raises:
            RunnerError: it failed or took too long; carries its last lines.
        """
        try:
            done = subprocess.run(
                [self._program, *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=wait_s,
                check=False,
                env={**os.environ, "DOCKER_BUILDKIT": "0"},
            )
        except subprocess.TimeoutExpired as error:
            raise RunnerError(f"docker {arguments[0]} took longer than {wait_s:g} s") from error
        if done.returncode != 0:
            tail = " / ".join(f"{done.stdout}\n{done.stderr}".strip().splitlines()[-12:])
            raise RunnerError(f"docker {arguments[0]} failed: {tail[-800:]}")
        return done.stdout.strip()

    def save(self, image: str, path: Path) -> None:
        """Write an image with all its layers into a tar file."""
        self.run("save", "--output", str(path), image, wait_s=BUILD_S)

    def inspect(self, image: str) -> dict[str, Any]:
        """What the engine knows of an image."""
        return dict(json.loads(self.run("image", "inspect", image))[0])


def build_image(order: ImageOrder, docker: Docker) -> BuiltImage:
    """Build, scan and try an image.

    Raises:
        UsageError: a base without a digest, another Python than here, or a package that is not installed here.
        RefusedError: a secret is in a layer; the image is removed again.
        RunnerError: the engine failed.
    """
    if not _DIGEST.fullmatch(order.base):
        raise UsageError(f"--base {order.base}: name it by digest (NAME@sha256:...), since a tag may be moved")
    environment = _environment_of(order.base, docker)
    with tempfile.TemporaryDirectory(prefix="mst-image-") as scratch:
        context = Path(scratch)
        _fill(order, context, environment)
        bare = _build(order, context, docker)
        parts = _parts_of(bare, context, docker)
        image = _list_parts(bare, order, parts, context / "parts", docker)
        try:
            _scan(order, image, context, docker)
        except RefusedError:
            docker.run("image", "rm", "--force", image)
            raise
    own = order.recipes / order.kind / "smoke.sh"
    smoke = docker.run(
        *("run", "--rm", "--interactive", "--network", "none", "--entrypoint", "sh", image, "-s", order.kind),
        stdin=(own if own.is_file() else order.recipes / "smoke.sh").read_text(encoding="utf-8"),
    )
    return BuiltImage(
        digest=image, size_bytes=int(docker.inspect(image)["Size"]), parts=len(parts["components"]), smoke=smoke
    )


def recipes_folder() -> Path:
    """The folder `worker_images` of this checkout or installation.

    Raises:
        UsageError: it is not part of this installation.
    """
    package = Path(mst.__file__).resolve().parent
    for folder in (package / "worker_images", package.parent / "worker_images"):
        if (folder / "base" / "Dockerfile").is_file():
            return folder
    raise UsageError("the recipes of worker images are not part of this installation; use a checkout of mst")


def _environment_of(base: str, docker: Docker) -> dict[str, str]:
    """What wheels' conditions are decided by in an image, which may have a Python of another patch level than here."""
    found = docker.run(
        *("run", "--rm", "--network", "none", "--interactive", "--entrypoint", "python3", base, "-"), stdin=_MARKERS
    )
    environment: dict[str, str] = json.loads(found)
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if environment["python_version"] != here:
        raise UsageError(
            f"--base has Python {environment['python_version']}, and this coordinator {here}: wheels of one do not fit "
            "the other"
        )
    return environment


def _fill(order: ImageOrder, context: Path, environment: Mapping[str, str]) -> None:
    recipe = order.recipes / ("base" if order.kind == "judges" else order.kind)
    for name in ("Dockerfile", "package.json", "package-lock.json", "requirements.txt"):
        if (recipe / name).is_file():
            shutil.copyfile(recipe / name, context / name)
    if order.kind in EXTRAS:
        fetch_wheels(EXTRAS[order.kind], order.plugins, context / "wheels", environment)
    if order.kind == "agents":
        fetch_agents(context, environment)


def _parts_of(image: str, context: Path, docker: Docker) -> dict[str, Any]:
    """What is in a built image: what its base lists, the system's packages that are there now, and what was added."""
    looking = ("run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "sh", image, "-c")
    system = docker.run(*looking, "dpkg-query --show --showformat '${Package} ${Version}\\n' 2> /dev/null || true")
    listed = docker.run(*looking, f"cat {PARTS} 2> /dev/null || true")
    before = json.loads(listed)["components"] if listed else []
    added = [*wheel_parts(context / "wheels"), *node_parts(context), *pinned_parts(context)]
    return parts_list([*(one for one in before if "deb" not in one["purl"].split("/")[0]), *added], system)


def _list_parts(image: str, order: ImageOrder, parts: Mapping[str, Any], context: Path, docker: Docker) -> str:
    """The image with its list of parts in it; only now is it known what was installed."""
    context.mkdir()
    (context / "sbom.cdx.json").write_text(json.dumps(parts, indent=1), encoding="utf-8")
    (context / "Dockerfile").write_text(f"FROM {image}\nCOPY sbom.cdx.json {PARTS}\n", encoding="utf-8")
    tags = ["--tag", order.tag] if order.tag is not None else []
    docker.run("build", "--network", "none", "--iidfile", str(context / "id"), *tags, str(context), wait_s=BUILD_S)
    return (context / "id").read_text(encoding="utf-8").strip()


def _build(order: ImageOrder, context: Path, docker: Docker) -> str:
    labels = {
        "org.opencontainers.image.title": f"mst worker ({order.kind})",
        "org.opencontainers.image.version": mst.__version__,
        "org.opencontainers.image.base.name": order.base,
    }
    given = [part for name, value in labels.items() for part in ("--label", f"{name}={value}")]
    network = "none" if order.kind in EXTRAS else "default"
    docker.run(
        *("build", "--network", network, "--build-arg", f"BASE={order.base}", "--iidfile", str(context / "id")),
        *given,
        str(context),
        wait_s=BUILD_S,
    )
    return (context / "id").read_text(encoding="utf-8").strip()


def _scan(order: ImageOrder, image: str, context: Path, docker: Docker) -> None:
    archive = context / "image.tar"
    docker.save(image, archive)
    findings = scan_image(archive, secret_values=[*order.secret_values, *_own_secrets(os.environ)])
    if findings:
        raise RefusedError("the image holds what looks like secrets: " + "; ".join(findings[:5]))


def _own_secrets(environment: Mapping[str, str]) -> list[str]:
    """Values of this process's environment that must not be in an image: keys, tokens, passwords."""
    names = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|BROKER_URL|BASIC_AUTH)$")
    return [value for name, value in environment.items() if names.search(name) and len(value) >= 12]
