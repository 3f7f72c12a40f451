"""Running programs: results, bounds, and that nothing survives them."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import psutil
import pytest

from mst.errors import ProgramError
from mst.process.child import ChildResult, run_child
from mst.process.environment import clean_environment, make_home

PY = sys.executable


async def run(tmp_path, *argv, **given) -> ChildResult:
    settings = {
        "cwd": tmp_path,
        "env": clean_environment(make_home(tmp_path / "home")),
        "timeout_s": 20.0,
        "output_bytes": 1 << 20,
    }
    return await run_child(list(argv), **{**settings, **given})


def go(coroutine):
    return asyncio.run(coroutine)


def wait_gone(pids, within_s=5.0):
    deadline = time.monotonic() + within_s
    alive = set(pids)
    while alive and time.monotonic() < deadline:
        alive = {
            pid for pid in alive if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        }
    assert not alive


def test_output_exit_code_and_stdin_come_through(tmp_path):
    result = go(
        run(
            tmp_path,
            PY,
            "-c",
            "import sys; sys.stdout.write(sys.stdin.read()[::-1]); sys.stderr.write('e'); sys.exit(3)",
            stdin=b"abc",
        )
    )
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"cba", b"e")
    assert not result.timed_out
    assert not result.output_truncated
    assert result.leftovers == ()


def test_a_large_input_and_output_pass_at_once(tmp_path):
    data = b"x" * 600_000
    result = go(run(tmp_path, "cat", stdin=data))
    assert result.stdout == data


def test_a_program_that_does_not_read_its_input_ends_well(tmp_path):
    assert go(run(tmp_path, "true", stdin=b"x" * 1_000_000)).exit_code == 0


def test_without_input_the_program_sees_an_empty_one(tmp_path):
    assert go(run(tmp_path, "cat")).stdout == b""


def test_the_environment_is_made_from_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAK_ME", "1")
    names = {line.split("=")[0] for line in go(run(tmp_path, "env")).stdout.decode().splitlines()}
    assert names == {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE", "MST_PROCESS"}


def test_a_signal_is_a_negative_exit_code(tmp_path):
    assert go(run(tmp_path, PY, "-c", "import os; os.kill(os.getpid(), 9)")).exit_code == -9


@pytest.mark.parametrize("argv", [["no-such-program-here"], ["./nothing"], ["bad\0name"]])
def test_a_program_that_can_not_start_is_said_by_name(tmp_path, argv):
    with pytest.raises(ProgramError, match=r"no such program|NUL"):
        go(run(tmp_path, *argv))


def test_a_missing_working_folder_is_not_taken_for_a_missing_program(tmp_path):
    with pytest.raises(ProgramError, match="working folder"):
        go(run(tmp_path, "true", cwd=tmp_path / "gone"))


def test_a_file_without_executable_bit_is_said(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(ProgramError, match="not executable"):
        go(run(tmp_path, "./tool"))


def test_a_deadline_ends_even_what_ignores_term(tmp_path):
    result = go(run(tmp_path, "sh", "-c", "trap '' TERM; echo up; sleep 60", timeout_s=1, grace_s=0.2))
    assert result.timed_out
    assert result.exit_code == -9
    assert result.stdout == b"up\n"


def test_after_term_a_program_may_tidy_up(tmp_path):
    code = "trap 'echo tidy; exit 0' TERM; echo up; sleep 60 & wait"
    result = go(run(tmp_path, "sh", "-c", code, timeout_s=1))
    assert result.timed_out
    assert result.stdout == b"up\ntidy\n"


def test_a_flood_is_cut_at_its_bound_and_the_program_ended(tmp_path):
    result = go(run(tmp_path, "yes", output_bytes=100_000, grace_s=0.2))
    assert result.output_truncated
    assert not result.timed_out
    assert len(result.stdout) + len(result.stderr) == 100_000


def test_output_of_exactly_the_bound_is_whole(tmp_path):
    result = go(run(tmp_path, PY, "-c", "print('x' * 99, end='')", output_bytes=99))
    assert (result.output_truncated, len(result.stdout)) == (False, 99)


def test_a_background_child_that_holds_the_pipe_is_killed_and_named(tmp_path):
    started = time.monotonic()
    result = go(run(tmp_path, "sh", "-c", "sleep 60 & echo $!"))
    # The name is the shell's until the child has become the other program.
    assert result.leftovers in (("sleep",), ("sh",))
    assert time.monotonic() - started < 10
    wait_gone([int(result.stdout)])


@pytest.mark.skipif(sys.platform != "linux", reason="the mark is read from /proc")
def test_a_child_that_is_just_becoming_another_program_is_seen(tmp_path):
    # it has no environment for a moment, in which it was taken for one of somebody else
    for _ in range(20):
        result = go(run(tmp_path, "sh", "-c", "setsid sleep 60 & echo $!"))
        assert result.leftovers in (("sleep",), ("setsid",), ("sh",))
        wait_gone([int(result.stdout)])


@pytest.mark.skipif(sys.platform != "linux", reason="the mark is read from /proc")
def test_a_daemon_in_a_session_of_its_own_is_killed_too(tmp_path):
    code = (
        "import os,subprocess,sys\n"
        "p=subprocess.Popen(['sleep','60'],start_new_session=True,stdin=-3,stdout=-3,stderr=-3)\n"
        "print(p.pid, flush=True); os._exit(0)"
    )
    result = go(run(tmp_path, PY, "-c", code))
    assert result.leftovers == ("sleep",)
    wait_gone([int(result.stdout)])


def test_cancellation_kills_the_whole_family(tmp_path):
    pidfile = tmp_path / "pids"
    code = (
        "import os,signal,subprocess,time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "a=subprocess.Popen(['sleep','60']); b=subprocess.Popen(['sleep','60'],start_new_session=True)\n"
        f"name={str(pidfile)!r}; open(name+'.new','w').write(f'{{os.getpid()}} {{a.pid}} {{b.pid}}')\n"
        "os.rename(name+'.new', name)\n"
        "time.sleep(60)"
    )

    async def scene():
        task = asyncio.ensure_future(run(tmp_path, PY, "-c", code))
        while not pidfile.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    go(asyncio.wait_for(scene(), 30))
    wait_gone([int(pid) for pid in pidfile.read_text().split()])


def test_the_start_is_told_with_the_group(tmp_path):
    seen = []
    go(run(tmp_path, "true", on_start=lambda pid: seen.append((pid, os.getpid()))))
    assert len(seen) == 1
    assert seen[0][0] != os.getpid()


def test_many_children_at_once_keep_their_output_apart(tmp_path):
    async def scene():
        return await asyncio.gather(*(run(tmp_path, "echo", str(n)) for n in range(20)))

    assert [int(result.stdout) for result in go(scene())] == list(range(20))
