"""The shard worker's side of turns: what waits, and what ends the waiting."""

import asyncio

from mst.model.keys import TrialKey
from mst.model.shard import Acquire, Granted, JudgeCounted, JudgeFailed
from mst.shards.asking import Asking

KEY = TrialKey(variant="a", case_id="c", trial=0)


def waiting(asking):
    return asyncio.create_task(asking.may_start(KEY))


async def passes():
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_unit_that_is_held_starts_when_it_may_go_on():
    async def scene():
        asking = Asking([].append, has_budget=False)
        asking.hold(True)
        unit = waiting(asking)
        await passes()
        assert not unit.done()
        asking.hold(False)
        return await unit

    assert asyncio.run(scene()) is True


def test_at_the_end_a_unit_that_is_held_does_not_start():
    async def scene():
        asking = Asking([].append, has_budget=False)
        asking.hold(True)
        unit = waiting(asking)
        await passes()
        asking.end()
        return await unit, await asking.may_start(KEY)

    assert asyncio.run(scene()) == (False, False)


def test_a_unit_asks_for_room_in_the_budget_only_once_it_is_not_held():
    async def scene():
        sent = []
        asking = Asking(sent.append, has_budget=True)
        asking.hold(True)
        unit = waiting(asking)
        await passes()
        assert sent == []
        asking.hold(False)
        await passes()
        assert sent == [Acquire(key=KEY)]
        asking.granted(Granted(key=KEY))
        return await unit

    assert asyncio.run(scene()) is True


def test_a_fault_of_a_judge_waits_until_it_is_counted():
    async def scene():
        sent = []
        asking = Asking(sent.append, has_budget=False)
        faults = [asyncio.create_task(asking.failed("j", "auth", text)) for text in ("a", "b")]
        await passes()
        one, two = sent
        assert one == JudgeFailed(fault=one.fault, judge="j", kind="auth", message="a")
        asking.counted(JudgeCounted(fault=two.fault))
        asking.counted(JudgeCounted(fault=two.fault))
        await passes()
        assert [fault.done() for fault in faults] == [False, True]
        asking.counted(JudgeCounted(fault=one.fault))
        await asyncio.gather(*faults)

    asyncio.run(scene())
