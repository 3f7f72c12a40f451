"""The one way out of a Docker sandbox with an allowlist: tinyproxy in a container beside the trial's.

The trial's containers have no network at all: no name server, no gateway, no neighbour. A door on their loopback leads
to the proxy, which knows the names that pass. Whatever else is asked for it refuses, and tells.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mst.errors import InfrastructureError
from mst.process.lastwords import last_words
from mst.process.together import together
from mst.sandboxes.containers import engine, image_id, make, said_by
from mst.sandboxes.door import pass_on

PORT = 8599
"""Of the door inside."""
NAMES_MAX = 50
LONGEST_NAME = 253
_LISTENS = 8888
_NETWORK = "bridge"
_USER = 65534
_READY_S = 60.0
_EVERY_S = 0.05
_LISTENING = "Accepting connections"
_PACE = threading.Event()
_IDLE_S = 600
_CLIENTS = 100
_LOG_BYTES = 4 * 1024 * 1024
_FOLDER = "/run/proxy"
# Its settings come as variables: a container with a read-only root takes no files, and there is nothing to delete.
_START = (
    f'umask 077; printf %s "$SETTINGS" >{_FOLDER}/settings; printf %s "$NAMES" >{_FOLDER}/names; unset SETTINGS NAMES; '
    f"exec tinyproxy -d -c {_FOLDER}/settings"
)
_ASKED = re.compile(r"Request \(file descriptor \d+\): ")
_REFUSED = re.compile(r'Proxying refused on filtered domain "(.*)"$')
_REFUSED_PORT = re.compile(r"Refused CONNECT method on port (\d+)")


class Egress:
    """The proxy of one trial. `serve` answers one connection of its door.

    Attributes:
        name: of its container.
    """

    def __init__(self, name: str, image: str, allow: Sequence[str]) -> None:
        self.name = name
        self._image = image
        self._allow = allow
        self._port: int | None = None

    def start(self) -> None:
        """Make the container and wait until it answers. Blocks for about a second.

        Raises:
            InfrastructureError: no such image, or it does not start.
        """
        from docker.errors import DockerException  # noqa: PLC0415 - an extra
        from docker.types import LogConfig  # noqa: PLC0415 - as above

        log = LogConfig(type="json-file", config={"max-size": str(_LOG_BYTES // 2), "max-file": "2"})
        settings: dict[str, Any] = {
            "network_mode": _NETWORK,
            "ports": {f"{_LISTENS}/tcp": ("127.0.0.1", None)},
            "user": f"{_USER}:{_USER}",
            "tmpfs": {_FOLDER: f"rw,nosuid,nodev,noexec,size=1m,mode=700,uid={_USER},gid={_USER}"},
            "mem_limit": 128 * 1024 * 1024,
            "memswap_limit": 128 * 1024 * 1024,
            "pids_limit": 2 * _CLIENTS,
            "log_config": log,
        }
        env = {"SETTINGS": settings_text(), "NAMES": names_text(self._allow)}
        make(
            image_id(self._image), ["/bin/sh", "-c", _START],
            name=self.name, env=env, cwd="/", with_input=False, settings=settings,
        )  # fmt: skip
        try:
            container = engine().containers.get(self.name)
            container.start()
            container.reload()
            bound = container.attrs["NetworkSettings"]["Ports"].get(f"{_LISTENS}/tcp") or []
        except DockerException as error:
            raise InfrastructureError(f"the proxy of network: allowlist cannot be started: {error}") from error
        if not bound or not self._listens_soon():
            raise InfrastructureError(f"the proxy of network: allowlist does not start: {last_words(self._said())}")
        self._port = int(bound[0]["HostPort"])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass the bytes of one connection to the proxy and back. Never raises for what either side does."""
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                await together([pass_on(reader, up_writer), pass_on(up_reader, writer)])
            finally:
                up_writer.close()
        except OSError:
            return
        finally:
            writer.close()

    def told(self) -> dict[str, Any]:
        """End it; what it was asked for and refused, for the record's diagnostics: how often, by name. Blocks."""
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        with suppress(DockerException):
            # Its log is whole only when it has ended.
            engine().containers.get(self.name).stop(timeout=2)
        return read_log(self._said())

    def _listens_soon(self) -> bool:
        """Wait for its word. A connection tells nothing: the engine takes those before the proxy does."""
        deadline = time.monotonic() + _READY_S
        while _LISTENING not in self._said():
            if time.monotonic() > deadline or engine().containers.get(self.name).status != "running":
                return False
            _PACE.wait(_EVERY_S)
        return True

    def _said(self) -> str:
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        with suppress(DockerException):
            return bytes(engine().containers.get(self.name).logs(stdout=True, stderr=True)).decode(errors="replace")
        return ""


def proxy_faults(image: str) -> list[str]:
    """Why the proxy can't be had: its image is missing, or has no tinyproxy that filters."""
    try:
        said = said_by(image_id(image), ["tinyproxy", "-h"])
    except InfrastructureError as error:
        fix = "make it with: mst images build proxy --base IMAGE@DIGEST --tag mst-proxy"
        return [f"sandbox.proxy: {error}" if "no such image" not in str(error) else f"sandbox.proxy: {image}: {fix}"]
    if said is None or "Filtering" not in said:
        return [f"sandbox.proxy: {image}: no tinyproxy that can filter is in this image"]
    return []


def proxy_variables() -> dict[str, str]:
    """What programs inside are told, in both spellings that are in use."""
    here = f"http://127.0.0.1:{PORT}"
    found = {"HTTP_PROXY": here, "HTTPS_PROXY": here, "ALL_PROXY": here, "NO_PROXY": "localhost,127.0.0.1,::1"}
    return {**found, **{name.lower(): value for name, value in found.items()}}


def settings_text() -> str:
    """Settings of tinyproxy 1.11: everything is refused but the names of the filter, and tunnels but to HTTPS."""
    return "\n".join(
        [
            f"Port {_LISTENS}",
            f"Timeout {_IDLE_S}",
            f"MaxClients {_CLIENTS}",
            "LogLevel Info",
            f'Filter "{_FOLDER}/names"',
            "FilterExtended On",
            "FilterDefaultDeny Yes",
            "FilterCaseSensitive Off",
            "ConnectPort 443",
            "DisableViaHeader Yes",
            "",
        ]
    )


def names_text(allow: Sequence[str]) -> str:
    """The names as the extended regular expressions that tinyproxy takes, one a line, each for a whole name."""
    return "".join(f"{_expression(name.lower())}\n" for name in allow)


def read_log(text: str) -> dict[str, Any]:
    """From tinyproxy's log: `asked` (requests), `refused` (how often by name; at most 50 names, the most frequent).

    A program can choose any name; it can't write lines, since a name with a line's end is none.
    """
    asked = 0
    refused: Counter[str] = Counter()
    for line in text.splitlines():
        asked += _ASKED.search(line) is not None
        if name := _REFUSED.search(line):
            refused[name[1][:LONGEST_NAME]] += 1
        elif port := _REFUSED_PORT.search(line):
            refused[f"port {port[1]}"] += 1
    found: dict[str, Any] = {"asked": asked}
    if refused:
        found["refused"] = dict(refused.most_common(NAMES_MAX))
    return found


def _expression(name: str) -> str:
    below = name.startswith("*.")
    literal = name.removeprefix("*.").replace(".", "\\.")
    return f"{'[.]' if below else '^'}{literal}$"
