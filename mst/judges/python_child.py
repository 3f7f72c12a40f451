"""Runs one Python grader in a process of its own. A script: `python -I -B python_child.py FD|PATH`.

It imports nothing of mst, so that it starts as fast as the interpreter. Over the socket with the given number, or the
UNIX socket at the given path where no descriptor can be passed, it reads one line of JSON (what to load, what to call
it with, its memory limit), then writes lines of JSON: calls to the parent, judgments, and last either a result or an
error. What the grader prints goes to the ordinary standard streams and disturbs nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, NoReturn


class CapabilityError(RuntimeError):
    """What was asked for is not to be had while stored results are graded. The parent was told already."""


class Channel:
    """The line to the parent; one message at a time."""

    def __init__(self, number: int) -> None:
        # A program that the grader starts is often the one that is judged: it must not speak for the grader.
        os.set_inheritable(number, False)
        # Files over the descriptor: importing socket would cost a quarter of the start-up.
        self._reader: BinaryIO = open(number, "rb", closefd=False)  # noqa: SIM115 - lives as long as the process
        self._writer: BinaryIO = open(number, "wb", closefd=False)  # noqa: SIM115 - as above
        self._lock = threading.RLock()

    def receive(self) -> Any:
        """The next message of the parent; when it is gone, so is this process."""
        line = self._reader.readline()
        if not line:
            os._exit(3)
        return json.loads(line)

    def send(self, message: dict[str, Any]) -> None:
        """Tell the parent something. ValueError or TypeError when it is not JSON."""
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        with self._lock:
            self._writer.write(data)
            self._writer.flush()

    def ask(self, message: dict[str, Any]) -> Any:
        """Tell the parent something and wait for its answer."""
        with self._lock:
            self.send(message)
            return self.receive()


class Context:
    """What a grader gets. Its attributes are what the parent sent."""

    def __init__(self, fields: dict[str, Any], channel: Channel) -> None:
        for name, value in fields.items():
            setattr(self, name, Path(value) if name == "workspace" and value is not None else value)
        self._channel = channel

    def exec(self, argv: list[str], *, timeout_s: float = 60.0) -> SimpleNamespace:
        """Run a program in the workspace: `exit_code`, `stdout`, `stderr`, `timed_out`."""
        answer = self._channel.ask({"exec": [str(part) for part in argv], "timeout_s": float(timeout_s)})
        if "error" in answer:
            raise OSError(answer["error"])
        return SimpleNamespace(**answer)

    def add_judgment(self, **judgment: Any) -> None:
        """Keep a judgment even if the grader fails later: `name`, and `score`, `passed`, `reasoning` and the like."""
        self._channel.send({"judgment": judgment})

    def query(self, *_: Any, **__: Any) -> NoReturn:
        """Needs a live sandbox."""
        self._missing("query")

    def get_client(self, *_: Any, **__: Any) -> NoReturn:
        """Needs a live sandbox."""
        self._missing("get_client")

    def _missing(self, capability: str) -> NoReturn:
        self._channel.send({"missing": capability})
        raise CapabilityError(f"{capability} is not available when stored results are graded")


def main() -> None:
    """Serve one call. Never returns: leftover threads and exit handlers of the grader have no say."""
    channel = Channel(int(sys.argv[1]) if sys.argv[1].isdigit() else connect(sys.argv[1]))
    request = channel.receive()
    process = os.getpid()
    try:
        limit_memory(request["memory_bytes"])
        function = load(request["target"], request["folder"])
        value = function(*(Context(fields, channel) for fields in request["contexts"]))
        if os.getpid() == process:  # a copy that the grader forked has no say
            channel.send({"result": value})
    except BaseException as error:  # noqa: BLE001 - the grader's code may raise anything, SystemExit too
        if os.getpid() == process:
            channel.send({"error": explain(error, request["folder"])})
    with contextlib.suppress(Exception):  # a stream that the grader closed
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def connect(path: str) -> int:
    """The number of a socket that is connected to the parent's; the grader's code is not loaded yet."""
    import socket  # noqa: PLC0415 - see Channel: most calls do without

    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    return line.detach()


def limit_memory(limit: int) -> None:
    """Bound the address space and allow no core dump, which would hold secrets."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # the machine's own limit is lower
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def load(target: str, folder: str) -> Any:
    """Find `path.py:function` below the folder, or `module:function` among what is installed."""
    source, _, name = target.rpartition(":")
    if source.endswith(".py"):
        path = os.path.normpath(os.path.join(folder, source))  # noqa: PTH118 - normpath without touching links
        sys.path.insert(0, os.path.dirname(path))  # noqa: PTH120 - as above
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        if spec is None or spec.loader is None or not Path(path).is_file():
            raise ImportError(f"{source}: no such file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(source)
    function = module
    for part in name.split("."):
        function = getattr(function, part)
    return function


def explain(error: BaseException, folder: str) -> str:
    """Type and message, and the last line of the grader's own file that was reached."""
    place = ""
    frame = error.__traceback__
    while frame is not None:
        path = frame.tb_frame.f_code.co_filename
        if path.startswith(folder + os.sep):
            place = f" ({path[len(folder) + 1 :]}:{frame.tb_lineno})"
        frame = frame.tb_next
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an exception class of the grader whose __str__ fails
        message = "(no readable message)"
    text = f"{type(error).__name__}: {message[:2000]}" if message else type(error).__name__
    return text.encode("utf-8", "replace").decode() + place


if __name__ == "__main__":
    main()
