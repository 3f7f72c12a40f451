"""Finding what a child left: among the processes born since its start where that can be told, among all where not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest

from mst.process import group
from mst.process.child import run_child
from mst.process.group import MARK, Birth, marked, sweep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture
def child():
    """A child with a mark, and the moment before its start."""
    birth = Birth.now()
    started = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: "a-mark"}, start_new_session=True)
    yield started, birth
    started.kill()
    started.wait()


def test_the_numbers_since_a_birth_have_the_child_and_not_every_process(child):
    started, birth = child
    since = list(birth.since(started.pid))
    assert started.pid in since
    assert os.getpid() not in since
    assert marked("a-mark", since) == marked("a-mark") == [started.pid]


def test_it_is_swept_with_and_without_the_moment_of_its_birth(child):
    started, birth = child
    assert sweep(started.pid, "a-mark", birth) == ("sleep",)
    assert started.wait(20) == -9


def test_a_program_that_was_started_with_no_environment_is_not_waited_for(monkeypatch):
    looked = []
    environ = group._environ
    monkeypatch.setattr(group, "_environ", lambda pid: looked.append(pid) or environ(pid))
    bare = subprocess.Popen(["sleep", "60"], env={}, start_new_session=True)
    try:
        assert marked("a-mark", [bare.pid]) == []
        assert looked == [bare.pid, bare.pid]
    finally:
        bare.kill()
        bare.wait()


def test_a_program_that_has_become_another_one_since_its_environment_was_read_is_seen(monkeypatch, child):
    started, _birth = child
    environ, looks = group._environ, iter([b""])
    monkeypatch.setattr(group, "_environ", lambda pid: next(looks, environ(pid)))
    assert marked("a-mark", [started.pid]) == [started.pid]


def test_numbers_that_went_round_are_told(monkeypatch, child):
    started, _birth = child
    monkeypatch.setattr(group, "_last_pid", lambda: 5)
    monkeypatch.setattr(group, "_pid_max", lambda: started.pid + 10)
    moment = Birth(started.pid - 1, time.monotonic())
    since = list(moment.since(started.pid))
    assert (since[0], since[-1]) == (started.pid, 5)


@pytest.mark.parametrize("last", [None, 0])
def test_a_machine_that_does_not_say_has_all_its_processes_looked_at(monkeypatch, child, last):
    started, birth = child
    monkeypatch.setattr(group, "_last_pid", lambda: last)
    assert birth.since(started.pid) is None
    assert sweep(started.pid, "a-mark", birth) == ("sleep",)


def test_numbers_that_may_all_have_been_given_again_are_not_trusted(child):
    started, birth = child
    long_ago = Birth(birth.last_pid, birth.at - 10_000)
    assert long_ago.since(started.pid) is None


def test_a_child_that_is_not_among_them_shows_that_they_mean_nothing(child):
    started, _birth = child
    assert Birth(started.pid + 1, time.monotonic()).since(started.pid) is None


def test_children_of_loops_in_several_threads_are_all_waited_for():
    codes = []

    def work(code):
        async def one():
            return await run_child(
                ["sh", "-c", f"exit {code}"], cwd="/", env={"PATH": os.environ["PATH"]}, timeout_s=60, output_bytes=10
            )

        codes.append(asyncio.run(one()).exit_code)

    threads = [threading.Thread(target=work, args=(code,)) for code in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == list(range(8))
