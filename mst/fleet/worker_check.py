"""A worker compares the settings that it really runs with, and ends when they are others.

With late acknowledgement, prefetching or a prefork pool a fleet would look healthy and now and then run a shard twice
or ignore a drain; so such a worker must not take its first message. An exception in a signal handler would only be
logged, so this is a step of the worker's start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from mst.fleet.extras import need

EXIT_CODE = 2


def add_worker_check(app: Any, wanted: Mapping[str, Any]) -> None:
    """Make every worker of this application check itself before it connects.

    Args:
        app: a Celery application.
        wanted: settings and the values that they must have.
    """
    bootsteps = need("celery.bootsteps")

    class CheckSettings(bootsteps.Step):  # type: ignore[misc, name-defined]  # the library is untyped
        """Made while the worker is put together: nothing is started or connected yet."""

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            faults = differences(parent, options, wanted)
            if faults:
                _end(faults)

    app.steps["worker"].add(CheckSettings)


def differences(worker: Any, options: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """One line for each setting that is not as wanted: of the application, the command line, or the registry."""
    conf = worker.app.conf
    found = [
        f"{name} is {conf.get(name)!r}, must be {value!r}"
        for name, value in wanted.items()
        if name != "worker_pool" and _plain(conf.get(name)) != _plain(value)
    ]
    pool = worker.pool_cls.__module__.rpartition(".")[2]
    if pool != "thread":
        found.append(f"pool is {pool}, must be threads")
    if worker.prefetch_multiplier != 1:
        found.append(f"prefetch multiplier is {worker.prefetch_multiplier}, must be 1")
    found += [f"--{flag} is given, must not be" for flag in ("autoscale", "beat") if options.get(flag)]
    found += [
        f"--{flag.replace('_', '-')} is missing"
        for flag in ("without_gossip", "without_mingle")
        if not options.get(flag)
    ]
    tasks = sorted(worker.app.tasks)
    if tasks != ["mst.shard"]:
        found.append(f"registered tasks are {', '.join(tasks) or 'none'}; only mst.shard may be")
    return found


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, list | tuple | set | frozenset) else value


def _end(faults: Iterable[str]) -> None:
    sys.stderr.write("".join(f"mst worker: {fault}; start it with `mst worker`\n" for fault in faults))
    raise SystemExit(EXIT_CODE)
