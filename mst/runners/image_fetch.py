"""Fetching what an image is made of, here, where the coordinator's versions are known: its build downloads nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import mst
from mst.errors import UsageError
from mst.fleet.extras import need

FETCH_S = 1800.0
ROUNDS_MAX = 5


def fetch_wheels(extras: Sequence[str], plugins: Sequence[str], into: Path, environment: Mapping[str, str]) -> None:
    """Every wheel that mst with these extras and the plugins need, at the versions that are installed here.

    And in the folder `pip` below, the pip that installs them.

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
            # Where the building package is here (a checkout's locked environment), no other is fetched.
            ours = ["--no-build-isolation"] if find_spec("hatchling") is not None else []
            _pip("wheel", "--no-deps", *ours, "--wheel-dir", str(into), str(source))
            (wheel,) = into.glob("mst-*.whl")
            own = f"{wheel}[{','.join(extras)}]"
        _pip("download", "--only-binary=:all:", "--dest", str(into), "--constraint", str(pins), own, "pip", *plugins)
        (into / "pip").mkdir()
        for wheel in into.glob("pip-*.whl"):
            wheel.rename(into / "pip" / wheel.name)
        for _ in range(ROUNDS_MAX):
            if not (lacking := missing_wheels(into, environment)):
                return
            _pip("download", "--only-binary=:all:", "--dest", str(into), "--constraint", str(pins), *lacking)
    raise UsageError("packages of the image: those that the base's Python needs beside ours need others without end")


def fetch_agents(context: Path, environment: Mapping[str, str]) -> None:
    """The agents of a folder's `package-lock.json` and `requirements.txt`, for the base's machine. No script runs.

    Raises:
        UsageError: npm is not installed here, or npm or pip can't; carries what they said.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError("npm is not installed here: the agents are fetched with it")
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(environment["platform_machine"], "x64")
    argv = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-bin-links", "--prefix", str(context)]
    _fetch([*argv, "--os", "linux", "--cpu", machine, "--libc", "glibc"], r"npm (?:ERR!|error)")
    _pip(
        *(
            "download",
            "--quiet",
            "--only-binary=:all:",
            "--no-deps",
            "--require-hashes",
            "--dest",
            str(context / "pinned"),
        ),
        *("--requirement", str(context / "requirements.txt")),
    )


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
    _fetch([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], r"depends on|constraint|^ERROR")


def _fetch(argv: Sequence[str], telling: str) -> None:
    """Run a program that fetches packages; of what it says when it fails, lines that match `telling` say why."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=FETCH_S, check=False)
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".splitlines()
        why = [line.strip() for line in said if re.search(telling, line)] or said
        raise UsageError(f"packages of the image: {' / '.join(why[:4])[:600]}")
