"""A shard worker's lines on their way out."""

import json
import os

from mst.model.keys import TrialKey
from mst.model.shard import Graded, Started
from mst.shards.wire import Wire

FIRST, SECOND = (TrialKey(variant="a", case_id=case, trial=0) for case in ("one", "two"))
ENDED = Graded(key=FIRST, status="graded", path="units/x.json")


def test_an_end_that_can_wait_goes_with_the_next_begin_and_before_it():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as source, os.fdopen(writing, "wb") as stream:
        wire = Wire(stream)
        wire.send(ENDED, at_once=False)
        wire.send(Started(key=SECOND))
        lines = source.read(65536).splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["graded", "started"]


def test_flushing_lets_go_of_what_waits(tmp_path):
    path = tmp_path / "lines"
    with path.open("wb") as stream:
        wire = Wire(stream)
        wire.send(ENDED, at_once=False)
        assert not path.read_bytes()
        wire.flush()
        assert json.loads(path.read_bytes())["type"] == "graded"
