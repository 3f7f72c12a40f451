"""Workers asked to end by `mst fleet drain`; progress as lines of JSON."""

import json

import pytest

from mst.testing.commandline import ended, until
from mst.testing.equality import differences
from mst.testing.fleet import Bed, fleet

pytestmark = pytest.mark.server


def test_a_drained_worker_gives_its_shard_back_and_nothing_is_graded_twice(tmp_path):
    with fleet(tmp_path / "fleet") as one:
        bed = Bed(one, tmp_path / "quiz")
        here = bed.here()
        bed.ready(1)
        [first] = one.workers.values()
        bed.quiz.ask("hold-c4")
        running = bed.start("--json", shards=2)
        [held] = until(lambda: bed.quiz.lines("held"), "a judge is held")
        nobody = bed.mst("fleet", "drain", "nobody")
        assert nobody.code == 2
        assert nobody.error_lines == [f"mst: no worker nobody serves this version's queues: {first.name}"]
        assert bed.mst("fleet", "drain").code == 2
        said = bed.mst("fleet", "drain", first.name)
        assert said.out == f"{first.name}: asked to end after the units under way\n"
        until(lambda: "attempt_stops" in first.log, "its attempt was told")
        one.start()
        # only the judge under way; the case's other one stays held, so that the shard cannot end too soon
        bed.quiz.ask(f"go-{held}")
        until(lambda: len(bed.quiz.lines("held")) == 2, "the other one is held, on the second worker by rights")
        bed.quiz.let_go("hold-c4")
        assert first.process.wait(90) == 0
        over = ended(running)
        assert over.code in (0, 1), over.err
        assert set(bed.quiz.calls().values()) == {1}
        assert differences(here.path, bed.newest().path) == []
        lines = [json.loads(line) for line in over.err.splitlines()]
        notes = [line["text"] for line in lines if line["event"] == "note"]
        [given] = [text for text in notes if f"given back by {first.name}: it was told to end (drained)" in text]
        shard = given.split(" given")[0]
        assert f"{shard} goes on: w2 has it" in notes[notes.index(given) :]
        assert not [text for text in notes if "lost" in text]
        assert lines[-1]["event"] == "progress"
        assert (lines[-1]["done"], lines[-1]["planned"], lines[-1]["shards"]) == (18, 18, {"committed": 2})
        assert lines[-1]["leftS"] == 0
        assert json.loads(over.out)
