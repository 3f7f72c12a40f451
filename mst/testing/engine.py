"""A Docker engine for tests, one for all test processes of this user, and a base image that needs no registry.

The engine is the one that `DOCKER_HOST` names, or one that is started here (root, `dockerd` on PATH) with all its files
in a folder of its own; the last test process that uses it ends it. The base is a small Debian with Python, tini and
tinyproxy, made with debootstrap and kept in the user's cache. Where neither is to be had the test skips with the
reason, loudly; in CI as root it fails.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest

IMAGE = "mst-test-base:bookworm"
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,tini,tinyproxy-bin,ca-certificates"
START_S = 90.0
STOP_S = 30.0
DEBOOTSTRAP_S = 900.0
_PACE = threading.Event()
_UNWANTED = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


@contextmanager
def docker_engine() -> Iterator[str]:
    """`DOCKER_HOST` of an engine that answers and has `IMAGE`; this process's `DOCKER_HOST` is it until the end.

    Blocks while another test process starts it.
    """
    host = os.environ.get("DOCKER_HOST")
    if host is not None and answers(host):
        _import(host)
        yield host
        return
    absent = [name for name in ("dockerd", "docker", "debootstrap") if shutil.which(name) is None]
    if absent or os.geteuid() != 0:
        not_here(f"not installed: {', '.join(absent)}" if absent else "dockerd needs root")
    home = Path(tempfile.gettempdir()) / f"mst-engine-{os.getuid()}"
    _join(home)
    try:
        with _this_process_uses(f"unix://{home}/s"):
            yield f"unix://{home}/s"
    finally:
        _leave(home)


@cache
def base_image(host: str) -> str:
    """The ID of `IMAGE` in an engine."""
    return docker(host, "image", "inspect", "--format", "{{.Id}}", IMAGE)


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


def answers(host: str) -> bool:
    """Whether an engine is there."""
    try:
        done = subprocess.run(
            ["docker", "version"], env={**os.environ, "DOCKER_HOST": host}, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def not_here(reason: str) -> NoReturn:
    """Skip, and say so where even a quiet run shows it; in CI as root, where all can be installed, fail."""
    if os.environ.get("CI") and os.geteuid() == 0:
        pytest.fail(reason)
    sys.stderr.write(f"NOT CHECKED with Docker, since {reason}\n")
    pytest.skip(reason)


@contextmanager
def _this_process_uses(host: str) -> Iterator[None]:
    from mst.sandboxes.containers import engine  # noqa: PLC0415 - an extra

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", host)
        engine.cache_clear()
        yield
        with suppress(Exception):
            engine().close()
        engine.cache_clear()


def _join(home: Path) -> None:
    """Count this process among the users of the engine in a folder; start it if it does not run."""
    with _state(home) as state:
        users = [pid for pid in state.get("users", []) if Path(f"/proc/{pid}").exists()]
        host = f"unix://{home}/s"
        if not ("engine" in state and answers(host)):
            _end(home, state.get("engine"))
            state["engine"] = _start(home, host)
            _import(host)
        state["users"] = [*users, os.getpid()]


def _leave(home: Path) -> None:
    with _state(home) as state:
        state["users"].remove(os.getpid())
        if not any(Path(f"/proc/{pid}").exists() for pid in state["users"]):
            _end(home, state.pop("engine"))
            state.clear()


@contextmanager
def _state(home: Path) -> Iterator[dict[str, Any]]:
    """What the processes know together, for one at a time. Beside the engine's folder, which comes and goes."""
    with home.with_suffix(".json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        state = json.loads(file.read() or "{}")
        try:
            yield state
        finally:
            file.seek(0)
            file.truncate()
            json.dump(state, file)


def _start(home: Path, host: str) -> int:
    home.mkdir(mode=0o711)
    log = home / "log"
    with log.open("wb") as sink:
        argv = ["dockerd", "--data-root", f"{home}/data", "--exec-root", f"{home}/exec", "--host", host]
        argv += ["--pidfile", f"{home}/pid", "--storage-driver", "overlay2"]
        # Nobody's child: the test process that starts it need not be the last that uses it.
        subprocess.run(["setsid", "--fork", *argv], stdout=sink, stderr=sink, stdin=subprocess.DEVNULL, check=True)
    deadline = time.monotonic() + START_S
    while not answers(host):
        said = log.read_text(errors="replace")
        if "failed to start daemon" in said or time.monotonic() > deadline:
            _end(home, _number(home))
            not_here(f"dockerd did not start: {said[-2000:]}")
        _PACE.wait(0.2)
    return _number(home)


def _number(home: Path) -> int:
    try:
        return int((home / "pid").read_text())
    except (OSError, ValueError):
        return 0


def _end(home: Path, engine: object) -> None:
    """End an engine and delete all that it had."""
    if isinstance(engine, int) and _is_engine(engine):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(engine, number)
            if _gone(engine, STOP_S):
                break
    # A dead engine leaves mounts of its own (`netns/default`), and nothing below a mount can be deleted.
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((one for one in mounted if Path(one).is_relative_to(home)), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(home, ignore_errors=not home.exists())


def _is_engine(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "dockerd"
    except OSError:
        return False


def _gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not _is_engine(pid):
            return True
        _PACE.wait(0.1)
    return False


def _import(host: str) -> None:
    known = docker(host, "images", "--quiet", IMAGE)
    if not known:
        docker(host, "import", str(_archive()), IMAGE)


def _archive() -> Path:
    """The base image's files, made once into a cache folder outside the repository."""
    cache_folder = Path(os.environ.get("MST_TEST_CACHE") or Path.home() / ".cache" / "mst-tests")
    archive = cache_folder / f"{SUITE}-{PACKAGES.replace(',', '-')}.tar"
    if archive.is_file():
        return archive
    cache_folder.mkdir(parents=True, exist_ok=True)
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
        for folder in _UNWANTED:
            shutil.rmtree(root / folder, ignore_errors=True)
        half = archive.with_suffix(".half")
        subprocess.run(["tar", "--directory", str(root), "--create", "--file", str(half), "."], check=True)
        half.replace(archive)
    return archive


def own_containers(*, running: bool = False) -> list[Any]:
    """Containers that this process made, as other test processes use the same engine."""
    from mst.process.owner import owner  # noqa: PLC0415 - beside what follows
    from mst.sandboxes.containers import LABEL, engine  # noqa: PLC0415 - an extra

    return list(engine().containers.list(all=not running, filters={"label": f"{LABEL}={owner()}"}, ignore_removed=True))
