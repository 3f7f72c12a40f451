"""A Docker engine of a test's own: started on a socket in a folder, with an image made without any registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IMAGE = "mst-test-base:bookworm"
_START_S = 60.0
_CACHE = Path(os.environ.get("MST_TEST_CACHE") or Path.home() / ".cache" / "mst-tests")


@contextmanager
def docker_engine(folder: Path) -> Iterator[str]:
    """Start `dockerd` and import a small Debian with Python; yields the value for `DOCKER_HOST`.

    Needs root, `dockerd` and `debootstrap`; without them the test fails in CI and is skipped elsewhere.
    """
    absent = [name for name in ("dockerd", "docker", "debootstrap") if shutil.which(name) is None]
    if absent or os.geteuid() != 0:
        _cannot(f"not installed: {', '.join(absent)}" if absent else "dockerd needs root")
    tarball = _tarball()
    host = f"unix://{folder}/engine.sock"
    log = folder / "engine.log"
    with log.open("wb") as sink:
        argv = ["dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--host", host]
        argv += ["--pidfile", f"{folder}/engine.pid", "--storage-driver", "overlay2"]
        engine = subprocess.Popen(argv, stdout=sink, stderr=sink, start_new_session=True)
    try:
        _until_ready(engine, host, log)
        subprocess.run(["docker", "--host", host, "import", tarball, IMAGE], check=True, stdout=subprocess.DEVNULL)
        yield host
    finally:
        engine.terminate()
        try:
            engine.wait(30)
        except subprocess.TimeoutExpired:
            engine.kill()
            engine.wait()


def _tarball() -> Path:
    """The image's files, made once into a cache folder outside the repository."""
    target = _CACHE / "debian-bookworm-python3.tar.gz"
    if target.exists():
        return target
    _CACHE.mkdir(parents=True, exist_ok=True)
    root = _CACHE / f"rootfs-{os.getpid()}"
    try:
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=python3", "bookworm", str(root)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shutil.rmtree(root / "var/cache/apt", ignore_errors=True)
        part = target.with_suffix(".part")
        subprocess.run(["tar", "-C", str(root), "-czf", str(part), "."], check=True)
        part.replace(target)
    except subprocess.CalledProcessError as error:
        _cannot(f"debootstrap failed: {error}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return target


def _until_ready(engine: subprocess.Popen[bytes], host: str, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and engine.poll() is None:
        asked = subprocess.run(["docker", "--host", host, "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return
    _cannot(f"dockerd did not start: {log.read_text(errors='replace')[-2000:]}")


def _cannot(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
