"""Building worker images: every package at the coordinator's version, a list of parts, a look for secrets, a digest.

Nothing is downloaded inside of the build: wheels are fetched here, where the coordinator's versions are known, and the
image installs them without an index.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Literal

import mst
from mst.errors import RefusedError, RunnerError, UsageError
from mst.fleet.extras import need
from mst.runners.image_scan import scan_image

Kind = Literal["base", "judges", "agents", "proxy"]
EXTRAS: dict[str, tuple[str, ...]] = {
    "base": ("fleet", "s3", "gcs", "aws", "metrics"),
    "judges": ("fleet", "s3", "gcs", "aws", "metrics", "judges"),
}
BUILD_S = 1800.0
ROUNDS_MAX = 5
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


def fetch_wheels(extras: Sequence[str], plugins: Sequence[str], into: Path, environment: Mapping[str, str]) -> None:
    """Every wheel that mst with these extras and the plugins need, at the versions that are installed here.

    Raises:
        UsageError: pip can't; carries what it said.
    """
    into.mkdir(parents=True)
    source = Path(mst.__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="mst-pins-") as scratch:
        pins = Path(scratch) / "pins.txt"
        pins.write_text("\n".join(f"{name}=={version}" for name, version in _installed().items()) + "\n")
        own = f"mst[{','.join(extras)}]"
        if (source / "pyproject.toml").is_file():
            _pip("wheel", "--no-deps", "--wheel-dir", str(into), str(source))
            (wheel,) = into.glob("mst-*.whl")
            own = f"{wheel}[{','.join(extras)}]"
        _pip("download", "--only-binary=:all:", "--dest", str(into), "--constraint", str(pins), own, *plugins)
        for _ in range(ROUNDS_MAX):
            if not (lacking := missing_wheels(into, environment)):
                return
            _pip("download", "--only-binary=:all:", "--dest", str(into), "--constraint", str(pins), *lacking)
    raise UsageError("packages of the image: those that the base's Python needs beside ours need others without end")


def missing_wheels(wheels: Path, environment: Mapping[str, str]) -> list[str]:
    """Requirements of wheels that hold in another environment than this one, and that no wheel there satisfies.

    Needed since pip decides conditions by the Python that it runs on.
    """
    requirements, names = need("packaging.requirements"), need("packaging.utils")
    have = {names.canonicalize_name(path.name.split("-")[0]) for path in wheels.glob("*.whl")}
    lacking: dict[str, None] = {}
    for path in sorted(wheels.glob("*.whl")):
        for text in _metadata_of(path).get_all("Requires-Dist") or []:
            one = requirements.Requirement(text)
            holds = one.marker is None or one.marker.evaluate({**environment, "extra": ""})
            if holds and names.canonicalize_name(one.name) not in have:
                lacking[f"{one.name}{one.specifier}"] = None
    return list(lacking)


def _metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one))
        return message_from_bytes(archive.read(name))


def _installed() -> dict[str, str]:
    found = {str(one.metadata["Name"]).lower(): one.version for one in distributions()}
    found.pop("mst", None)
    return found


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".splitlines()
        why = [line.strip() for line in said if re.search(r"depends on|constraint|^ERROR", line)] or said
        raise UsageError(f"packages of the image: {' / '.join(why[:4])[:600]}")


def wheel_parts(wheels: Path) -> list[dict[str, Any]]:
    """Python packages of a folder, by wheel with its digest."""
    found: list[dict[str, Any]] = []
    for wheel in sorted(wheels.glob("*.whl")) if wheels.is_dir() else []:
        name, version = wheel.name.split("-")[:2]
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        part = _part("pypi", name.replace("_", "-").lower(), version)
        found.append({**part, "hashes": [{"alg": "SHA-256", "content": sha256}]})
    return found


def node_parts(context: Path) -> list[dict[str, Any]]:
    """Packages of a folder's `package-lock.json` that its recipe installs: those for Linux."""
    lock = context / "package-lock.json"
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"] if lock.is_file() else {}
    return [
        _part("npm", place.rpartition("node_modules/")[2], str(package["version"]))
        for place, package in sorted(packages.items())
        if place and "linux" in package.get("os", ["linux"]) and "glibc" in package.get("libc", ["glibc"])
    ]


def pinned_parts(context: Path) -> list[dict[str, Any]]:
    """Packages of a folder's `requirements.txt`."""
    pins = context / "requirements.txt"
    text = pins.read_text(encoding="utf-8") if pins.is_file() else ""
    return [_part("pypi", *found) for found in re.findall(r"^([\w.-]+)==([\w.!+-]+)", text, re.MULTILINE)]


def _part(kind: str, name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:{kind}/{name}@{version}"}


def parts_list(added: Sequence[Mapping[str, Any]], system_packages: str) -> dict[str, Any]:
    """The list of parts (CycloneDX 1.5): what was added, and the system's packages by name and version."""
    components: list[Mapping[str, Any]] = list(added)
    for line in system_packages.splitlines():
        name, _, version = line.partition(" ")
        components.append(_part("deb/debian", name, version))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": now,
            "component": {"type": "container", "name": "mst-worker", "version": mst.__version__},
        },
        "components": components,
    }  # fmt: skip


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
