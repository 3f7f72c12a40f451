"""A provider's limit is reached and not passed. Takes minutes: `-m slow`."""

from __future__ import annotations

import asyncio
import time

import pytest

from mst.config.files import IndexedFiles
from mst.grade.contract import Grader
from mst.grade.live import Live
from mst.model.case import EvalPlan, GraderSpec, Variant
from mst.model.keys import TrialKey
from mst.process.redact import Redactor
from mst.testing.judge import make_subject
from mst.testing.modellimits import AllRules, WindowRule
from mst.testing.modelscript import verdict
from mst.testing.modelserver import model_server


def plan(**rate) -> EvalPlan:
    return EvalPlan(
        name="e",
        config_id="c",
        content_hash="h",
        variants=[Variant(name="a")],
        baseline="a",
        rate_limits={"providers": {"openai": rate}},
    )


def grade_many(tmp_path, server, count: int, **rate) -> tuple[list[float | None], float]:
    """Grade so many trials with one judge; the scores, and the time until the last call came in."""
    live = Live(plan(**rate), files=IndexedFiles(), secrets={}, scratch=tmp_path / "scratch", redactor=Redactor([]))
    spec = GraderSpec(type="rubric", name="q", options={"model": "m", "base_url": server.openai_url})
    judge = Grader(name="judge.q", role="judge", spec=spec)
    subject = make_subject(tmp_path)

    async def one(number: int, room: asyncio.Semaphore) -> float | None:
        async with room:
            key = TrialKey(variant="a", case_id=f"c{number}", trial=0)
            return (await live.trial(key, subject, [judge])).scores["judge.q"].score

    async def all_of_them() -> tuple[list[float | None], float]:
        await live.preflight([judge])  # loads the model library, which would hold up the first calls
        started = time.monotonic()
        room = asyncio.Semaphore(32)
        found = await asyncio.gather(*(one(number, room) for number in range(count)))
        await live.aclose()
        return found, server.last_at - started

    return asyncio.run(all_of_them())


def figure(tmp_path, count: int, per_minute: int) -> float:
    """The share of the limit that was reached; the server counts any minute and clock minutes, and refused nothing."""
    with model_server(verdict(1)) as server:
        server.limit = AllRules([WindowRule(per_minute), WindowRule(per_minute, sliding=False)])
        scores, took_s = grade_many(tmp_path, server, count, per_minute=per_minute, concurrent=32)
        assert server.statuses == {200: count}
        assert server.most_at_once <= 32
    assert scores == [1.0] * count
    return (count - 1) * 60 / took_s / per_minute


def test_a_short_run_keeps_the_limit(tmp_path):
    assert figure(tmp_path, 100, 1200) <= 1.1  # five calls make up for lost time at the start, and are a twentieth


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ten_thousand_verdicts_reach_the_limit_to_within_five_per_cent_without_passing_it(tmp_path):
    share = figure(tmp_path, 10_000, 1200)
    print(f"reached {share:.2%} of 1200 calls a minute")  # noqa: T201 - the figure is what this is for
    assert 0.95 <= share <= 1.0, share
