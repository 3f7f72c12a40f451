"""Waiting for children without a thread for each: what later Pythons do by themselves where they can."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

if sys.version_info < (3, 12):

    class _ByDescriptor(asyncio.AbstractChildWatcher):
        """Has the loop that starts a child watch the child's descriptor; any number of loops, in any threads."""

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_given: object) -> None:
            return None

        def is_active(self) -> bool:
            return True

        def close(self) -> None:
            return None

        def attach_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
            return None

        def add_child_handler(  # type: ignore[override]  # its arguments are those of the callback, whatever they are
            self, pid: int, callback: Callable[..., object], *args: Any
        ) -> None:
            loop = asyncio.get_running_loop()
            descriptor = os.pidfd_open(pid)

            def ended() -> None:
                loop.remove_reader(descriptor)
                os.close(descriptor)
                code = 255  # as asyncio has it, when somebody else took the exit code
                with suppress(ChildProcessError):
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                callback(pid, code, *args)

            loop.add_reader(descriptor, ended)

        def remove_child_handler(self, pid: int) -> bool:
            # asyncio does not call it for watchers like this one: a child that was started is waited for
            return True


@functools.cache
def watch_by_descriptor() -> None:
    """Have asyncio wait so from now on, where this Python does not by itself and the system can. Once a process."""
    if sys.version_info >= (3, 12) or sys.platform != "linux":
        return
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return
    asyncio.get_event_loop_policy().set_child_watcher(_ByDescriptor())
