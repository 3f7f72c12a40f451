"""The inside of a shard worker that was started before there is a shard for it: see `mst.shards.spare`.

It has loaded what every shard needs, and waits for one line on stdin that says what to run. It holds no secret and has
opened nothing. When stdin ends instead, whoever started it is gone, and it ends.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import tempfile

LOADED = ("mst.cli.shard", "mst.shards.worker", "mst.shards.grading", "mst.shards.units")


def wait() -> None:
    """Load, wait for an order, and become the shard worker that it names."""
    for name in LOADED:
        importlib.import_module(name)
    line = _line()
    if not line.endswith(b"\n"):
        return
    order = json.loads(line)
    os.environ.update(order["environment"])
    # the folder for temporary files may have been asked for while loading
    tempfile.tempdir = None
    sys.argv = ["mst", *order["argv"]]
    runpy.run_module("mst", run_name="__main__")


def _line() -> bytes:
    """The first line of stdin, and nothing after it: the rest is for the shard worker, which reads the same pipe."""
    found = bytearray()
    while not found.endswith(b"\n") and (one := os.read(0, 1)):
        found += one
    return bytes(found)
