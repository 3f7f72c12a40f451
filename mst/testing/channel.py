"""The contract of `mst.shards.contract.Channel` as tests. Subclass `ChannelContract` and tell it how to make channels.

The worker behind the channel is a script of the test in place of mst, so that it can say and do anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from mst.errors import RunnerError
from mst.model.shard import LINE_MAX_BYTES
from mst.shards.contract import Channel, WorkerProcess
from mst.testing.commandline import until

LONG_ENOUGH_S = 20.0
HEAD = """
import json, os, pathlib, signal, subprocess, sys, time
arguments = dict(zip(sys.argv[2::2], sys.argv[3::2]))
bundle, results = pathlib.Path(arguments["--bundle"]), pathlib.Path(arguments["--results"])
def say(**message):
    print(json.dumps(message), flush=True)
"""


def write_worker(folder: Path, script: str) -> dict[str, str]:
    """Write a script that a channel starts as if it were mst; returns the environment that makes it so."""
    home = folder / "fake-mst"
    (home / "mst").mkdir(parents=True, exist_ok=True)
    (home / "mst" / "__init__.py").touch()
    (home / "mst" / "__main__.py").write_text(HEAD + script)
    return {"PYTHONPATH": str(home)}


Start = Callable[[str], tuple[Channel, WorkerProcess]]


class ChannelContract:
    """Every kind of channel passes these."""

    @pytest.fixture
    def make_channel(self, tmp_path: Path) -> Callable[[str], Channel]:
        """Makes a channel whose worker is this script (see `write_worker`)."""
        raise NotImplementedError

    @pytest.fixture
    def bundle(self, tmp_path: Path) -> Path:
        """A folder with one file."""
        folder = tmp_path / "bundle"
        folder.mkdir()
        (folder / "bundle.json").write_text("the bundle")
        return folder

    @pytest.fixture
    def results(self, tmp_path: Path) -> Path:
        """A results folder with one finished unit, a note and an artifact."""
        folder = tmp_path / "results"
        for name in ("units/one.json", "artifacts/abc", "poisoned.json"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
        return folder

    @pytest.fixture
    def start(self, make_channel: Callable[[str], Channel], bundle: Path, results: Path) -> Iterator[Start]:
        """Starts a worker script and ends it after the test."""
        started: list[tuple[Channel, WorkerProcess]] = []

        def begin(script: str) -> tuple[Channel, WorkerProcess]:
            channel = make_channel(script)
            process = channel.start(["grade-shard"], bundle=bundle, results=results)
            started.append((channel, process))
            return channel, process

        yield begin
        for channel, process in started:
            process.kill()
            channel.close()

    def test_the_worker_finds_its_bundle_and_what_was_finished(self, start: Start) -> None:
        _, process = start(
            "say(bundle=(bundle / 'bundle.json').read_text(),"
            " there=sorted(str(p.relative_to(results)) for p in results.rglob('*') if p.is_file()))"
        )
        [line] = process.lines()
        there = ["artifacts/abc", "poisoned.json", "units/one.json"]
        assert json.loads(line) == {"bundle": "the bundle", "there": there}
        assert process.wait(LONG_ENOUGH_S) == 0

    def test_what_the_worker_does_to_its_copies_does_not_reach_ours(self, start: Start, results: Path) -> None:
        _, process = start("(results / 'units' / 'one.json').unlink(); (results / 'units' / 'two.json').touch()")
        assert process.wait(LONG_ENOUGH_S) == 0
        assert [path.name for path in (results / "units").iterdir()] == ["one.json"]

    def test_lines_go_both_ways(self, start: Start) -> None:
        _, process = start("for line in sys.stdin: print('heard', line, end='', flush=True)")
        lines = process.lines()
        for word in ("one", "two"):
            process.send(f"{word}\n".encode())
            assert next(lines) == f"heard {word}".encode()
        process.close_stdin()
        assert list(lines) == []
        assert process.wait(LONG_ENOUGH_S) == 0

    def test_a_line_over_the_bound_is_an_error(self, start: Start) -> None:
        _, process = start(f"print('x' * {LINE_MAX_BYTES - 1}); print('y' * {LINE_MAX_BYTES}); sys.stdout.flush()")
        lines = process.lines()
        assert len(next(lines)) == LINE_MAX_BYTES - 1
        with pytest.raises(ValueError, match=str(LINE_MAX_BYTES)):
            next(lines)

    def test_the_end_of_stderr_is_kept(self, start: Start) -> None:
        _, process = start("for n in range(20_000): print('word', n, file=sys.stderr)")
        assert process.wait(LONG_ENOUGH_S) == 0
        tail = process.stderr_tail()
        assert tail.endswith("word 19999\n")
        assert 4096 <= len(tail) <= 64 * 1024

    def test_an_announced_file_comes_back_whole(self, start: Start, tmp_path: Path) -> None:
        channel, process = start("(results / 'units' / 'two.json').write_text('two')")
        assert process.wait(LONG_ENOUGH_S) == 0
        target = tmp_path / "back" / "two.json"
        channel.get("units/two.json", target)
        assert target.read_text() == "two"
        channel.get("units/two.json", target)
        assert [path.name for path in target.parent.iterdir()] == ["two.json"]

    def test_a_file_that_is_not_there_or_no_plain_file_is_an_error(self, start: Start, tmp_path: Path) -> None:
        channel, process = start("(results / 'link').symlink_to('/etc/passwd'); (results / 'folder').mkdir()")
        assert process.wait(LONG_ENOUGH_S) == 0
        for name in ("missing", "link", "folder"):
            with pytest.raises(RunnerError):
                channel.get(name, tmp_path / "back" / name)
            assert not (tmp_path / "back" / name).exists()

    def test_a_file_is_put_where_the_worker_can_read_it(self, start: Start, tmp_path: Path) -> None:
        channel, process = start("print(open(sys.stdin.readline().strip()).read())")
        (tmp_path / "extra").write_text("extra bytes")
        process.send(f"{channel.put(tmp_path / 'extra', 'a/b')}\n".encode())
        assert list(process.lines()) == [b"extra bytes"]

    def test_kill_ends_the_worker_and_everything_that_it_started(self, start: Start) -> None:
        _, process = start(
            "child = subprocess.Popen(['sleep', '600'])\n"
            "away = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            "say(pids=[os.getpid(), child.pid, away.pid])\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "time.sleep(600)"
        )
        pids = json.loads(next(iter(process.lines())))["pids"]
        process.kill()
        process.kill()
        assert process.wait(LONG_ENOUGH_S) not in (None, 0)
        until(lambda: not any(psutil.pid_exists(pid) for pid in pids), "all of them are gone")

    def test_sending_to_a_worker_that_has_ended_is_silent(self, start: Start) -> None:
        _, process = start("sys.exit(3)")
        assert process.wait(LONG_ENOUGH_S) == 3
        for _ in range(3):
            process.send(b"anybody there?\n" * 10_000)
        process.close_stdin()

    def test_close_removes_what_was_brought_there(self, start: Start, tmp_path: Path) -> None:
        channel, process = start("print(results)")
        [line] = process.lines()
        assert process.wait(LONG_ENOUGH_S) == 0
        channel.close()
        channel.close()
        assert not Path(line.decode()).exists()
