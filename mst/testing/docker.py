"""A Docker engine for tests, and a base image that needs no registry.

The engine is the one that answers, or one that is started here (root, `dockerd` on PATH) with all its files in a folder
of its own. The base is a small Debian with Python and tini, made with debootstrap and kept in the user's cache. Where
neither is to be had the test skips with the reason, loudly; where `CI` is set too, since a machine without root can't.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest

from mst.testing.servers import stop

START_S = 60.0
DEBOOTSTRAP_S = 900.0
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,tini,ca-certificates"
_PACE = threading.Event()


@contextmanager
def docker_engine() -> Iterator[str]:
    """`DOCKER_HOST` of an engine that answers; one that was started here ends with the block."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if _answers(host):
        yield host
        return
    if shutil.which("dockerd") is None or shutil.which("docker") is None or os.geteuid() != 0:
        not_here("no Docker engine answers, and none can be started (it takes root, docker and dockerd)")
    # a socket's name must be short
    with TemporaryDirectory(prefix="mst-docker-") as home:
        host = f"unix://{home}/s"
        with Path(home, "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *("dockerd", "--host", host, "--data-root", f"{home}/data", "--exec-root", f"{home}/exec"),
                    *("--pidfile", f"{home}/pid", "--bridge", "none", "--iptables=false"),
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + START_S
            while not _answers(host):
                if process.poll() is not None or time.monotonic() > deadline:
                    not_here(f"dockerd does not start: {Path(home, 'log').read_text(errors='replace')[-400:]}")
                _PACE.wait(0.2)
            yield host
        finally:
            stop(process)


def base_image(host: str) -> str:
    """The ID of the base image in an engine, made if it is not there."""
    archive = (
        Path(os.environ.get("MST_TEST_CACHE", Path.home() / ".cache" / "mst-tests")) / f"debian-{SUITE}-python.tar"
    )
    if not archive.is_file():
        _debootstrap(archive)
    made = docker(host, "import", str(archive), "mst-test-base:latest")
    return made.strip()


def docker(host: str, *arguments: str, wait_s: float = 300.0) -> str:
    """Run a Docker command; a failure fails the test with what it said."""
    done = subprocess.run(
        ["docker", *arguments],
        env={**os.environ, "DOCKER_HOST": host},
        capture_output=True,
        text=True,
        timeout=wait_s,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"docker {' '.join(arguments)[:200]}: {done.stdout[-800:]}{done.stderr[-800:]}")
    return done.stdout.strip()


def not_here(reason: str) -> NoReturn:
    """Skip, and say so where even a quiet run shows it."""
    sys.stderr.write(f"NOT CHECKED: worker images, since {reason}\n")
    pytest.skip(reason)


def _debootstrap(archive: Path) -> None:
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        not_here("there is no base image, and debootstrap can't make one (it takes root)")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="mst-base-") as scratch:
        root = Path(scratch) / "root"
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)],
            capture_output=True,
            text=True,
            timeout=DEBOOTSTRAP_S,
            check=False,
        )
        if done.returncode != 0:
            not_here(f"debootstrap failed: {done.stdout[-300:]}{done.stderr[-300:]}")
        for folder in (
            "var/cache/apt/archives",
            "var/lib/apt/lists",
            "usr/share/doc",
            "usr/share/man",
            "usr/share/locale",
        ):
            shutil.rmtree(root / folder, ignore_errors=True)
        half = archive.with_suffix(".half")
        subprocess.run(["tar", "--directory", str(root), "--create", "--file", str(half), "."], check=True)
        half.replace(archive)


def _answers(host: str) -> bool:
    try:
        done = subprocess.run(
            ["docker", "version"], env={**os.environ, "DOCKER_HOST": host}, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
