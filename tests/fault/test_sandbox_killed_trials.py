"""200 trials, killed in all their stages: no process, control group or folder is left."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from mst.collect.context import RunContext
from mst.collect.loop import client_of
from mst.collect.trial import collect_trial
from mst.config.files import IndexedFiles
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.process.redact import Redactor
from mst.sandboxes.cgroup import PREFIX, find_place
from mst.testing.client import FAMILY, descendants, wait_for_no_more_than
from mst.testing.engine import IMAGE, own_containers

TRIALS = 200
AT_ONCE = 8
CODE = "setsid sleep 300 & (sleep 300; true) & env -i sleep 299 & echo started > up; exec sleep 300"


def groups():
    place = find_place()
    folders = set(place.folders.values()) if place else set()
    return {entry for folder in folders for entry in folder.glob(f"{PREFIX}{os.getpid()}-*")}


async def killed(root, number, kind, limit):
    """One trial that is cancelled at some moment, early ones while it is being set up."""
    variant = Variant(
        name="v",
        client="command",
        client_options={"argv": ["sh", "-c", CODE], "input": "none"},
        env={"MST_TEST_FAMILY": FAMILY},
        sandbox={"kind": kind, **({"image": IMAGE} if kind == "docker" else {})},
        trial_limits=TrialLimits(time_s=60),
    )
    case = Case(id=f"c{number}", dataset="d", setup=[["sh", "-c", "sleep 0.05"]], teardown=[["true"]])
    trial = asyncio.ensure_future(
        collect_trial(
            case,
            variant,
            0,
            client=client_of(variant),
            context=RunContext(
                run_id="20260101T000000Z-abcdef",
                files=IndexedFiles(),
                secrets={},
                redactor=Redactor(()),
                scratch_root=root,
                timeouts=StageTimeouts(),
            ),
        )
    )
    async with limit:
        # A container takes longer to start than a process: the moments are to lie in all stages.
        longest_s = 2.5 if kind == "docker" else 0.4
        await asyncio.wait({trial}, timeout=random.Random(number).uniform(0, longest_s))
        trial.cancel()
        await asyncio.wait({trial})
    assert trial.cancelled(), trial


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kind", ["none", "bwrap", pytest.param("docker", marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_nothing_is_left_of_killed_trials(tmp_path, kind, request):
    if kind == "docker":
        request.getfixturevalue("docker_host")
    if kind == "bwrap" and shutil.which("bwrap") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("bubblewrap is not installed")
    before, lost_before = descendants(), lost()

    async def all_of_them():
        limit = asyncio.Semaphore(AT_ONCE)
        for start in range(0, TRIALS, AT_ONCE):
            await asyncio.gather(*(killed(tmp_path, number, kind, limit) for number in range(start, start + AT_ONCE)))

    asyncio.run(all_of_them())
    wait_for_no_more_than(before)
    assert list(tmp_path.iterdir()) == []
    assert groups() == set()
    assert lost() <= lost_before
    if kind == "docker":
        assert own_containers() == []


def lost():
    """Processes that forgot their environment, by which they would be known as ours."""
    return {pid.name for pid in Path("/proc").iterdir() if pid.name.isdigit() and _is_lost(pid)}


def _is_lost(pid):
    try:
        return (pid / "cmdline").read_bytes() == b"sleep\x00299\x00"
    except OSError:
        return False
