from __future__ import annotations

import asyncio

import pytest

from mst.clients.contract import ClientResult
from mst.collect.probe import Setting, probe_all
from mst.model.case import StageTimeouts, Variant
from mst.model.transcript import Transcript


class Agent:
    """Answers, or never does. The one that answers can't be closed."""

    evidence = "none"
    starts_from = "fixture"
    needs = "scratch"

    def __init__(self, answers):
        self.answers = answers
        self.closed = False

    def secrets_needed(self):
        return []

    async def run(self, case, workspace, context):
        if not self.answers:
            await asyncio.Event().wait()
        return ClientResult(transcript=Transcript(final_text="ok"))

    async def close(self):
        self.closed = True
        if self.answers:
            raise OSError("the machine is broken")


def test_agents_beside_one_whose_probe_breaks_are_ended_and_closed(bench):
    agents = [Agent(answers=False), Agent(answers=True), Agent(answers=False)]
    variant = Variant(name="v")
    settings = [Setting(variants=("v",), variant=variant, client=agent, prompt="Say ok.") for agent in agents]

    async def go():
        with pytest.raises(OSError, match="broken"):
            await probe_all(
                settings, files=bench.files, secrets={}, timeouts=StageTimeouts(), scratch_root=bench.scratch_root
            )
        return len(asyncio.all_tasks())

    assert asyncio.run(go()) == 1
    assert all(agent.closed for agent in agents)
    assert list(bench.scratch_root.iterdir()) == []
