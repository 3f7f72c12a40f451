"""Makers of cases, files and variants for the collect room."""

from __future__ import annotations

import asyncio

import pytest

from mst.collect.context import RunContext
from mst.collect.loop import client_of
from mst.collect.trial import collect_trial
from mst.config.files import IndexedFiles
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.process.redact import Redactor


class Bench:
    """Folders and files of one test."""

    def __init__(self, root):
        self.root = root
        self.files = IndexedFiles()
        self.scratch_root = root / "scratch-root"
        self.scratch_root.mkdir()
        self._sets = 0

    def refs(self, contents, executable=()):
        """Write files into a folder of their own and return them by content."""
        self._sets += 1
        folder = self.root / f"set{self._sets}"
        found = []
        for path, data in contents.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data if isinstance(data, bytes) else data.encode())
            if path in executable:
                target.chmod(0o755)
            found.append(self.files.add(folder, path))
        return found

    def case(self, contents=None, **fields):
        fixture = None if contents is None else self.refs(contents)
        return Case(id="c", dataset="d", fixture=fixture, **fields)

    def context(self, plan):
        return RunContext.of(
            plan, run_id="20260101T000000Z-abcdef", files=self.files, secrets={}, scratch_root=self.scratch_root
        )

    def command(self, script, limits=None, **options):
        return Variant(
            name="v",
            client="command",
            client_options={"argv": ["sh", "-c", script], "input": "none", **options},
            trial_limits=limits or TrialLimits(),
        )

    def trial(self, case, variant, secrets=None, timeouts=None, client=None):
        return asyncio.run(self.collect(case, variant, secrets=secrets, timeouts=timeouts, client=client))

    async def collect(self, case, variant, secrets=None, timeouts=None, client=None):
        return await collect_trial(
            case,
            variant,
            0,
            client=client or client_of(variant),
            context=RunContext(
                run_id="20260101T000000Z-abcdef",
                files=self.files,
                secrets=secrets or {},
                redactor=Redactor((secrets or {}).values()),
                scratch_root=self.scratch_root,
                timeouts=timeouts or StageTimeouts(),
            ),
        )

    def left(self):
        """What is in the scratch root."""
        return sorted(path.name for path in self.scratch_root.iterdir())


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)
