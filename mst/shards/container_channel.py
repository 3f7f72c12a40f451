"""The channel to a shard worker in a container: everything goes through Docker's API, so the engine may be anywhere."""

from __future__ import annotations

import contextlib
import io
import queue
import secrets
import select
import socket
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from mst.errors import RunnerError
from mst.model.shard import LINE_MAX_BYTES
from mst.process.owner import owner
from mst.sandboxes.containers import KEPT, LABEL, engine
from mst.shards.process_channel import FILE_MAX_BYTES, STDERR_TAIL_BYTES
from mst.shards.units import ARTIFACTS, UNITS

if TYPE_CHECKING:
    from docker.models.containers import Container

Keep = Literal["never", "failed", "always"]
PROGRAM = ("python3", "-P", "-m", "mst")
"""How mst is called in an image."""

_ROOT = "/mst"
_STDOUT, _STDERR = 1, 2
_HEADER_BYTES = 8
_QUEUED = 64
_POLL_S = 0.1
PIDS = 4096
_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a worker's container is made of.

    Attributes:
        image: its immutable ID.
        network: Docker's name: `none`, `bridge`, or one of the user's.
        file_bytes: no file in it gets larger.
    """

    image: str
    network: str = "bridge"
    cpus: float | None = None
    memory_bytes: int | None = None
    pids: int = PIDS
    file_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    mounts: Mapping[str, str] = field(default_factory=dict)


class ContainerProcess:
    """A worker in a container. See `mst.shards.contract.WorkerProcess`."""

    def __init__(self, container: Container, attached: Any) -> None:
        self._container = container
        # The library wraps the socket for reading alone where the engine is on this machine.
        self._wrapper = attached
        self._attached: socket.socket = getattr(attached, "_sock", attached)
        # Whoever is silent for long is not gone: the supervisor's clock decides that.
        self._attached.settimeout(None)
        self._tail = bytearray()
        self._out: queue.Queue[bytes | None] = queue.Queue(maxsize=_QUEUED)
        self._sending = threading.Lock()
        self._over = threading.Event()
        self._code: int | None = None
        self._ran_out = False
        self._reader = threading.Thread(target=self._read, daemon=True, name=f"mst-container-{container.name}")
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """As far as is known."""
        return self._code

    def send(self, line: bytes) -> None:
        """See `WorkerProcess.send`."""
        with self._sending, contextlib.suppress(OSError):
            while line and not self._over.is_set():
                # The engine takes what nobody reads until it is full, and does not tell that the worker has ended.
                _, writable, _ = select.select([], [self._attached], [], _POLL_S)
                if writable:
                    line = line[self._attached.send(line, socket.MSG_DONTWAIT) :]
                elif self.wait(0) is not None:
                    return

    def lines(self) -> Iterator[bytes]:
        """See `WorkerProcess.lines`."""
        rest = b""
        while (piece := self._out.get()) is not None:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield _bounded(line)
            _bounded(rest)
        if rest:
            yield rest

    def stderr_tail(self) -> str:
        """See `WorkerProcess.stderr_tail`."""
        self._reader.join(timeout=1)
        return bytes(self._tail).decode("utf-8", "replace")

    def close_stdin(self) -> None:
        """See `WorkerProcess.close_stdin`."""
        with self._sending, contextlib.suppress(OSError):
            self._attached.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """See `WorkerProcess.kill`. A container ends as a whole."""
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        if self._code is None:
            with contextlib.suppress(DockerException):
                self._container.kill()
            self.wait(10)
        self._over.set()
        with contextlib.suppress(OSError):
            self._attached.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(queue.Empty):
            while True:
                self._out.get_nowait()
        self._reader.join(timeout=1)
        self._attached.close()
        self._wrapper.close()

    def wait(self, timeout_s: float) -> int | None:
        """See `WorkerProcess.wait`. A signal's number n is told as -n."""
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        deadline = time.monotonic() + timeout_s
        while self._code is None:
            try:
                self._container.reload()
                state = self._container.attrs["State"]
            except DockerException:
                self._code = -9
                break
            if state["Status"] in {"exited", "dead"}:
                code = int(state["ExitCode"])
                self._code = 128 - code if 128 < code <= 192 else code
                self._ran_out = bool(state.get("OOMKilled"))
            elif time.monotonic() >= deadline:
                return None
            else:
                self._over.wait(_POLL_S)
        return self._code

    def ran_out_of_memory(self) -> bool:
        """See `WorkerProcess.ran_out_of_memory`."""
        return self._ran_out

    def _read(self) -> None:
        """Take frames apart: a byte for the stream, three of nothing, four for the size."""
        with contextlib.suppress(OSError):
            while header := _exactly(self._attached, _HEADER_BYTES):
                data = _exactly(self._attached, int.from_bytes(header[4:]))
                if header[0] == _STDERR:
                    self._tail += data
                    del self._tail[:-STDERR_TAIL_BYTES]
                elif header[0] == _STDOUT and not self._queue(data):
                    break
        self._queue(None)

    def _queue(self, data: bytes | None) -> bool:
        while not self._over.is_set():
            try:
                self._out.put(data, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        with contextlib.suppress(queue.Full):
            self._out.put_nowait(None)
        return False


class ContainerChannel:
    """Workers in containers of one engine. See `mst.shards.contract.Channel`."""

    def __init__(self, machine: Machine, *, name: str, keep: Keep = "never") -> None:
        self.machine = f"container {name}"
        self._spec = machine
        self._name = name
        self._keep = keep
        self._container: Container | None = None
        self._process: ContainerProcess | None = None

    def start(self, argv: Sequence[str], *, bundle: Path, results: Path) -> ContainerProcess:
        """See `Channel.start`."""
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        whole = [*PROGRAM, *argv, "--bundle", f"{_ROOT}/bundle", "--results", f"{_ROOT}/results"]
        try:
            self._container = self._create(whole)
            self._container.put_archive("/", _packed(bundle, results))
            parameters = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            attached = engine().api.attach_socket(str(self._container.id), params=parameters)
            self._container.start()
        except (DockerException, OSError) as error:
            raise RunnerError(f"no shard worker could be started in a container: {error}") from error
        self._process = ContainerProcess(self._container, attached)
        return self._process

    def get(self, relative: str, into: Path) -> None:
        """See `Channel.get`."""
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        assert self._container is not None
        into.parent.mkdir(parents=True, exist_ok=True)
        temporary = into.with_name(f".{into.name}.tmp")
        try:
            stream, about = self._container.get_archive(f"{_ROOT}/results/{relative}")
            if about is None or about.get("linkTarget") or int(about["size"]) > FILE_MAX_BYTES:
                raise RunnerError(f"cannot be brought back: no plain file of at most {FILE_MAX_BYTES} bytes")
            _unpack_one(stream, temporary)
            temporary.replace(into)
        except (DockerException, OSError, tarfile.TarError) as error:
            raise RunnerError(f"cannot be brought back: {error}") from error
        finally:
            temporary.unlink(missing_ok=True)

    def put(self, source: Path, relative: str) -> str:
        """See `Channel.put`."""
        assert self._container is not None
        target = f"{_ROOT}/inbox/{relative}"
        with _Pack() as pack:
            pack.add(source, target.lstrip("/"))
            self._container.put_archive("/", pack.data())
        return target

    def used_bytes(self, _most: int, _stop: threading.Event) -> int:
        """What the worker's container takes of the engine's disk, beside its image; 0 when that is not known."""
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        container = self._container
        if container is None:
            return 0
        with contextlib.suppress(DockerException):
            for found in engine().api.containers(size=True, filters={"id": container.id}):
                return int(found.get("SizeRw") or 0)
        return 0

    def close(self) -> None:
        """See `Channel.close`. What `keep` says stays, for a look at it."""
        from docker.errors import DockerException  # noqa: PLC0415 - an extra

        container, self._container = self._container, None
        if container is None:
            return
        failed = self._process is None or self._process.exit_code != 0
        if self._keep == "always" or (self._keep == "failed" and failed):
            with contextlib.suppress(DockerException):
                container.kill()
            with contextlib.suppress(DockerException):
                container.rename(f"{container.name}{KEPT}")
            return
        with contextlib.suppress(DockerException):
            container.remove(force=True, v=True)

    def _create(self, argv: list[str]) -> Container:
        from docker.types import Ulimit  # noqa: PLC0415 - an extra

        spec = self._spec
        largest = spec.file_bytes
        settings: dict[str, Any] = {
            "nano_cpus": None if spec.cpus is None else int(spec.cpus * 1e9),
            "mem_limit": spec.memory_bytes,
            "memswap_limit": spec.memory_bytes,
            "ulimits": None if largest is None else [Ulimit(name="fsize", soft=largest, hard=largest)],
        }
        return engine().containers.create(
            spec.image,
            argv,
            name=f"{self._name}-{secrets.token_hex(4)}",
            entrypoint=[],
            environment=dict(spec.environment),
            working_dir="/",
            stdin_open=True,
            init=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            pids_limit=spec.pids,
            network_mode=spec.network,
            volumes=[f"{here}:{inside}:ro" for here, inside in spec.mounts.items()],
            labels={LABEL: owner()},
            **{key: value for key, value in settings.items() if value is not None},
        )


class _Pack:
    """A tar archive whose files anybody may read and write: the image's user is not known here."""

    def __init__(self) -> None:
        self._file = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._file, mode="w")  # noqa: SIM115 - closed by data()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def folder(self, name: str) -> None:
        """An empty folder."""
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o777
        self._tar.addfile(entry)

    def add(self, source: Path, name: str) -> None:
        """A file, with the folders above it."""
        above = Path(name).parent
        for folder in [*reversed(above.parents), above]:
            if str(folder) != ".":
                self.folder(str(folder))
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = source.stat().st_size, 0o666
        with source.open("rb") as stream:
            self._tar.addfile(entry, stream)

    def data(self) -> bytes:
        """The archive."""
        self._tar.close()
        return self._file.getvalue()


def _packed(bundle: Path, results: Path) -> bytes:
    with _Pack() as pack:
        for folder in ("", "/bundle", "/results", "/results/units", "/results/artifacts"):
            pack.folder(f"{_ROOT.lstrip('/')}{folder}")
        for path in sorted(bundle.rglob("*")):
            if path.is_file():
                pack.add(path, f"{_ROOT.lstrip('/')}/bundle/{path.relative_to(bundle)}")
        wanted = [path for name in (UNITS, ARTIFACTS) for path in sorted((results / name).rglob("*"))]
        for path in [*wanted, *sorted(results.glob("*.json"))]:
            if path.is_file():
                pack.add(path, f"{_ROOT.lstrip('/')}/results/{path.relative_to(results)}")
        return pack.data()


def _unpack_one(stream: Iterator[bytes], target: Path) -> None:
    with tarfile.open(fileobj=_Readable(stream), mode="r|") as tar:
        entry = tar.next()
        if entry is None or not entry.isreg() or entry.size > FILE_MAX_BYTES:
            raise RunnerError(f"cannot be brought back: no plain file of at most {FILE_MAX_BYTES} bytes")
        source = tar.extractfile(entry)
        assert source is not None
        with target.open("wb") as sink:
            while piece := source.read(_COPY_BYTES):
                sink.write(piece)


class _Readable(io.RawIOBase):
    """A stream of pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _exactly(source: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        piece = source.recv(min(size - len(found), _COPY_BYTES))
        if not piece:
            return b""
        found += piece
    return bytes(found)


def _bounded(line: bytes) -> bytes:
    # With its end.
    if len(line) + 1 > LINE_MAX_BYTES:
        raise ValueError(f"the worker sent a line of more than {LINE_MAX_BYTES} bytes")
    return line
