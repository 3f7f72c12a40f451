"""A plugin's judge that only waits, as a model does, and notes when it was asked. `fleet_overhead.py` installs it."""

from __future__ import annotations

import asyncio
import os
import time
from typing import ClassVar

from mst.judges.contract import Finding, JudgeContext, Subject
from mst.judges.options import Options, parse_options
from mst.model.case import GraderSpec

WAIT_S = 0.1


class WaitingOptions(Options):
    """What the judge is told."""

    main: ClassVar[str] = "log"

    log: str
    """File that gets a line for each call: its case, and when it was asked."""


class WaitingJudge:
    """Waits, and finds everything fine."""

    Options = WaitingOptions

    def __init__(self, spec: GraderSpec) -> None:
        self._log = parse_options(spec, WaitingOptions).log

    async def preflight(self, _context: JudgeContext) -> None:
        """Nothing can be missing."""

    async def evaluate(self, subject: Subject, _context: JudgeContext) -> Finding:
        """Wait."""
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{subject.case.id} {time.monotonic()}\n".encode())
        os.close(log)
        await asyncio.sleep(WAIT_S)
        return Finding(score=1.0, reasoning="fine")
