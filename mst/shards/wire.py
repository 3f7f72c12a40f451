"""JSON lines between a shard worker and its supervisor, from the worker's side."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import IO

from pydantic import ValidationError

from mst.model.base import Model
from mst.model.shard import LINE_MAX_BYTES, SupervisorMessage, supervisor_message


class Wire:
    """Writes whole lines to the stdout that the process was started with. Safe from any thread.

    What anything else in the process prints goes to stderr, so that no stray line can pass for a message.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    @classmethod
    def take_stdout(cls) -> Wire:
        """Take stdout for messages and send everybody else's prints to stderr."""
        sys.stdout.flush()
        private = os.dup(1)
        os.dup2(2, 1)
        return cls(os.fdopen(private, "wb"))

    def send(self, message: Model) -> None:
        """Write one message. Silent when the supervisor is gone: end of stdin tells the worker so."""
        line = message.model_dump_json(exclude_none=True).encode() + b"\n"
        assert len(line) <= LINE_MAX_BYTES, "messages carry keys and paths, never content"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (BrokenPipeError, ValueError):
                return


def read_messages(stream: IO[bytes], told: Callable[[SupervisorMessage], None], ended: Callable[[], None]) -> None:
    """Read the supervisor's messages until its end of the pipe closes. Runs in a thread of its own.

    Args:
        stream: stdin.
        told: called with each message, in this thread.
        ended: called once when the stream ended or sent what is not a message.
    """
    try:
        for line in iter(stream.readline, b""):
            if not line.startswith(b"{"):
                continue
            try:
                told(supervisor_message.validate_json(line))
            except ValidationError:
                break
    finally:
        ended()
