"""A line of limited speed between a server and everybody else on this machine, as lies between two machines.

    with line("1gbit") as (host, within): ...

The server gets a network namespace of its own, which two virtual interfaces join to this one; each end sends no faster
than the line (a token bucket, which queues up to 50 ms and then drops, as a switch does). Needs root, and `ip` and
`tc` (Debian: `iproute2`). Nothing is left behind after an error; one such line at a time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

NAME = "mst-line"
HERE, THERE = "198.18.0.1", "198.18.0.2"
"""Of the block for benchmarks of networks (RFC 2544)."""
BURST_BYTES = 256 * 1024
"""At least what the fastest line sends between two ticks of the kernel's clock, and whole segments of 64 KiB."""
LONGEST_QUEUE = "50ms"


@contextmanager
def line(rate: str) -> Iterator[tuple[str, list[str]]]:
    """The server's address at the far end, and the command that runs a program there.

    Args:
        rate: of each direction, as `tc` spells it: `1gbit`, `2.5gbit`, `500mbit`.

    Raises:
        SystemExit: this machine or its user can't make one; says why.
    """
    _check(rate)
    within = ["ip", "netns", "exec", NAME]
    _run("ip", "netns", "add", NAME)
    try:
        _run("ip", "link", "add", f"{NAME}-0", "type", "veth", "peer", "name", f"{NAME}-1", "netns", NAME)
        _open([], f"{NAME}-0", HERE, rate)
        _open(within, f"{NAME}-1", THERE, rate)
        _run(*within, "ip", "link", "set", "lo", "up")
        yield THERE, within
    finally:
        # Both interfaces go with the namespace that one of them is in.
        _run("ip", "netns", "delete", NAME)


def _open(within: list[str], interface: str, address: str, rate: str) -> None:
    bucket = ("tbf", "rate", rate, "burst", str(BURST_BYTES), "latency", LONGEST_QUEUE)
    _run(*within, "tc", "qdisc", "add", "dev", interface, "root", *bucket)
    _run(*within, "ip", "address", "add", f"{address}/30", "dev", interface)
    _run(*within, "ip", "link", "set", interface, "up")


def _check(rate: str) -> None:
    if not re.fullmatch(r"\d+(\.\d+)?[mg]bit", rate):
        sys.exit(f"--line {rate}: wants a rate like 1gbit or 500mbit")
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            sys.exit(f"--line needs the program {program}: apt-get install iproute2")
    if os.geteuid() != 0:
        sys.exit("--line makes a network namespace, which needs root: run it with sudo, or leave it out")


def _run(*argv: str) -> None:
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode:
        after_kill = (
            f"; what a killed run left is removed by: ip netns delete {NAME}" if "exists" in ended.stderr else ""
        )
        sys.exit(f"no line: {' '.join(argv)} says {ended.stderr.strip()}{after_kill}")
