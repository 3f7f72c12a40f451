from __future__ import annotations

import asyncio

import pytest

from mst.errors import InvariantError
from mst.grade.assess import Assessor
from mst.grade.contract import Grader
from mst.model.case import GraderSpec
from mst.testing.judge import make_subject


class Source:
    """Its second question breaks, and the others are answered by nobody."""

    def __init__(self):
        self.asked = self.ended = 0

    async def trial(self, key, subject, graders):
        self.asked += 1
        try:
            if self.asked == 2:
                raise InvariantError("broken")
            await asyncio.Event().wait()
        finally:
            self.ended += 1

    async def comparison(self, key, pair, judges):
        await self.trial(key, pair, judges)


@pytest.mark.parametrize("role", ["judge", "pairwise"])
def test_questions_beside_one_that_breaks_are_ended_and_its_error_is_told_plainly(tmp_path, role):
    judge = Grader(name="j", role=role, spec=GraderSpec(type="command", name="j"))
    subject, source = make_subject(tmp_path), Source()

    async def go():
        assessor = Assessor(source, concurrency=4)
        asking = {"judge": assessor.bias, "pairwise": assessor.pair_bias}[role]
        with pytest.raises(InvariantError, match=r"^broken$"):
            await asking(judge, [subject, subject, subject])
        return source.ended, len(asyncio.all_tasks())

    assert asyncio.run(go()) == (source.asked, 1)
    assert source.asked >= 2
