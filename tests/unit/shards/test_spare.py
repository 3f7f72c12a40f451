"""A shard worker that is started before there is a shard for it."""

import json
import threading
from contextlib import closing

import pytest

from mst.errors import RunnerError
from mst.shards.process_channel import ProcessChannel, start_waiting
from mst.shards.spare import Spare

SOON_S = 60


class Process:
    """One that was started; `ended` says whether it has."""

    def __init__(self):
        self.ended = False
        self.killed = False

    def wait(self, _timeout_s):
        return 1 if self.ended else None

    def kill(self):
        self.killed = True


class Machine:
    """Starts processes, and tells when."""

    def __init__(self):
        self.made = []
        self.starts = threading.Semaphore(0)

    def start(self):
        self.made.append(Process())
        self.starts.release()
        return self.made[-1]

    def wait_for_one(self):
        assert self.starts.acquire(timeout=SOON_S)


@pytest.fixture
def machine():
    return Machine()


def taken(spare):
    """What waits, once it does: it is started first, and put there then."""
    while (found := spare.take()) is None:
        threading.Event().wait(0.001)
    return found


def test_one_waits_and_another_is_started_when_it_is_taken(machine):
    with Spare(idle_s=0, start=machine.start) as spare:
        first = taken(spare)
        assert taken(spare) is not first
    assert not first.killed


def test_what_nobody_took_is_ended(machine):
    with Spare(idle_s=0, start=machine.start):
        machine.wait_for_one()
    assert [process.killed for process in machine.made] == [True]


def test_none_is_started_while_a_shard_is_worked_on(machine):
    spare = Spare(idle_s=0, start=machine.start)
    with spare.pausing(), spare:
        with spare.pausing():
            pass
        assert not machine.starts.acquire(timeout=0.05)
    assert not machine.made


def test_a_shard_that_comes_before_one_waits_has_it_started(machine):
    spare = Spare(start=machine.start)
    with spare.pausing(), spare:
        assert spare.ready()
        assert spare.ready()
        assert [spare.take()] == machine.made


def test_one_that_ended_meanwhile_is_not_given(machine):
    with Spare(idle_s=0, start=machine.start) as spare:
        first = taken(spare)
        first.ended = True
        spare._waiting = first
        assert spare.take() is None
        assert first.killed


def test_a_machine_that_starts_nothing_is_not_asked_again():
    asked = threading.Semaphore(0)

    def refuse():
        asked.release()
        raise RunnerError("no process can be started")

    with Spare(idle_s=0, start=refuse) as spare:
        assert asked.acquire(timeout=SOON_S)
        assert spare.take() is None
        spare._thread.join(SOON_S)
    assert not asked.acquire(blocking=False)


def test_it_becomes_the_worker_of_the_shard_that_it_is_given(tmp_path):
    waiting = start_waiting()
    told = []
    channel = ProcessChannel(
        tmp_path / "there",
        environment={"MST_MACHINE_ID": "m7"},
        started=told.append,
        waiting=lambda: waiting,
    )
    (tmp_path / "bundle").mkdir()
    with closing(channel):
        process = channel.start(["grade-shard", "--digest", "d"], bundle=tmp_path / "bundle", results=tmp_path / "r")
        [hello] = map(json.loads, process.lines())
        process.kill()
    assert told == [process.pid] == [waiting.pid]
    assert (hello["type"], hello["machine"]) == ("hello", "m7")
    assert "bundle.json: missing" in process.stderr_tail()


def test_it_ends_when_who_started_it_is_gone():
    waiting = start_waiting()
    waiting.close_stdin()
    assert waiting.wait(SOON_S) == 0
    assert waiting.stderr_tail() == ""
    waiting.kill()


def test_one_that_cannot_be_confined_is_ended(tmp_path):
    waiting = start_waiting()

    def refuse(_pid):
        raise OSError(28, "No space left on device")

    channel = ProcessChannel(tmp_path / "there", started=refuse, waiting=lambda: waiting)
    with closing(channel), pytest.raises(RunnerError, match="No space left"):
        channel.start(["grade-shard", "--digest", "d"], bundle=tmp_path, results=tmp_path / "r")
    assert waiting.wait(0) is not None
