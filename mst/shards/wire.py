"""JSON lines between a shard worker and its supervisor, from the worker's side."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
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

    def send(self, message: Model, *, at_once: bool = True) -> None:
        """Write one message. Silent when the supervisor is gone: end of stdin tells the worker so.

        Args:
            message: any of a worker's.
            at_once: else it goes with the next one that does, or with `flush`.
        """
        line = message.model_dump_json(exclude_none=True).encode() + b"\n"
        assert len(line) <= LINE_MAX_BYTES, "messages carry keys and paths, never content"
        with self._lock, suppress(BrokenPipeError, ValueError):
            self._stream.write(line)
            if at_once:
                self._stream.flush()

    def flush(self) -> None:
        """Let go of what was not sent at once."""
        with self._lock, suppress(BrokenPipeError, ValueError):
            self._stream.flush()


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
