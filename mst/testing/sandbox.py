"""What every sandbox must do, and what an isolating one must withstand.

class TestMine(IsolatingSandboxContract):
    def make(self, options): return Mine(options)
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from mst.errors import ProgramError
from mst.process.child import ChildResult
from mst.sandboxes.contract import Enclosure, Folders, Sandbox
from mst.sandboxes.options import Kind, SandboxOptions
from mst.testing.client import descendants, wait_for_no_more_than

MIB = 1024 * 1024
_PATIENCE_S = 60.0
T = TypeVar("T")


class SandboxScenes:
    """Playing scenes in a sandbox; the base of suites."""

    kind: Kind = "none"

    def make(self, options: SandboxOptions) -> Sandbox:
        """The sandbox under test."""
        raise NotImplementedError

    def python(self) -> str:
        """A Python that exists inside."""
        return "python3"

    def options(self, **changes: Any) -> SandboxOptions:
        """Small limits, so that hogs are caught soon."""
        return SandboxOptions(**{"kind": self.kind, "memory": 256 * MIB, "pids": 64, "disk": 64 * MIB, **changes})

    def shell(self, folder: Path, code: str, **options: Any) -> ChildResult:
        """Run a shell script in a sandbox of small limits."""
        return self.within(folder, lambda inside: self.run(inside, folder, ["sh", "-c", code], **options))

    def script(self, folder: Path, code: str, **options: Any) -> ChildResult:
        """Run a Python script in a sandbox of small limits."""
        return self.within(folder, lambda inside: self.run(inside, folder, [self.python(), "-c", code], **options))

    async def run(self, inside: Enclosure, folder: Path, argv: list[str], **options: Any) -> ChildResult:
        """Run a program in an enclosure made by `within`."""
        env = inside.environment(options.pop("env", {}))
        bounds = {"timeout_s": _PATIENCE_S, "output_bytes": MIB, **options}
        return await inside.run(argv, cwd=folder / "workspace", env=env, **bounds)

    def within(
        self, folder: Path, scene: Callable[[Enclosure], Awaitable[T]], options: SandboxOptions | None = None
    ) -> T:
        """Play a scene in the enclosure of a trial whose folders lie in `folder`."""
        for name in ("workspace", "scratch"):
            (folder / name).mkdir(exist_ok=True)
        folders = Folders(workspace=folder / "workspace", scratch=folder / "scratch")

        async def whole() -> T:
            inside = self.make(options or self.options()).enter(folders)
            try:
                return await asyncio.wait_for(scene(inside), 2 * _PATIENCE_S)
            finally:
                await inside.close()
                self.findings = inside.findings()

        return asyncio.run(whole())


class SandboxContract(SandboxScenes):
    """Tests that every sandbox passes."""

    def test_it_is_to_be_had_here(self) -> None:
        assert self.make(self.options()).faults() == []

    def test_a_program_runs_in_the_workspace_with_its_input_and_tells_its_end(self, tmp_path: Path) -> None:
        result = self.shell(tmp_path, "cat > out; pwd > where; echo said; echo why >&2; exit 3", stdin=b"given")
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"said\n", b"why\n")
        assert (tmp_path / "workspace/out").read_bytes() == b"given"
        assert (result.timed_out, result.output_truncated, result.stopped) == (False, False, None)
        assert result.leftovers == ()

    def test_paths_are_told_as_programs_see_them(self, tmp_path: Path) -> None:
        async def scene(inside: Enclosure) -> ChildResult:
            (tmp_path / "scratch/note").write_text("x")
            (tmp_path / "workspace/mine").write_text("y")
            paths = [str(inside.seen(tmp_path / name)) for name in ("scratch/note", "workspace/mine")]
            return await self.run(inside, tmp_path, ["cat", *paths])

        assert self.within(tmp_path, scene).stdout == b"xy"

    def test_a_signal_is_told_as_one(self, tmp_path: Path) -> None:
        assert self.shell(tmp_path, "kill -9 $$").exit_code == -9

    def test_arguments_and_environment_pass_as_they_are(self, tmp_path: Path) -> None:
        odd = "a b\n$(id) '\" * é"

        async def scene(inside: Enclosure) -> ChildResult:
            argv = ["sh", "-c", 'printf "%s|%s" "$1" "$ODD"', "sh", odd]
            return await self.run(inside, tmp_path, argv, env={"ODD": odd})

        assert self.within(tmp_path, scene).stdout.decode() == f"{odd}|{odd}"

    def test_the_home_is_fresh_writable_and_stays_for_the_trial(self, tmp_path: Path) -> None:
        async def scene(inside: Enclosure) -> ChildResult:
            await self.run(
                inside, tmp_path, ["sh", "-c", 'ls -A "$HOME" > seen; echo 1 > "$HOME/kept"; : > "$TMPDIR/t"']
            )
            return await self.run(inside, tmp_path, ["sh", "-c", 'cat "$HOME/kept"'])

        assert self.within(tmp_path, scene).stdout == b"1\n"
        assert (tmp_path / "workspace/seen").read_text() in {"tmp\n", ""}

    def test_nothing_of_this_process_s_environment_gets_in(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("API_KEY_OF_THE_PARENT", "s3cr3t-of-the-parent")
        assert b"s3cr3t" not in self.shell(tmp_path, "env; cat /proc/self/environ").stdout

    def test_a_program_that_is_missing_is_named(self, tmp_path: Path) -> None:
        async def scene(inside: Enclosure) -> None:
            with pytest.raises(ProgramError, match="no-such-program"):
                await self.run(inside, tmp_path, ["no-such-program"])

        self.within(tmp_path, scene)

    def test_at_the_deadline_it_may_tidy_up_and_is_ended(self, tmp_path: Path) -> None:
        code = "trap 'echo bye; exit 5' TERM; touch up; while :; do sleep 0.05; done"
        result = self.shell(tmp_path, code, timeout_s=2.0)
        assert (result.timed_out, result.stdout) == (True, b"bye\n")

    def test_one_that_ignores_all_is_killed_with_its_children(self, tmp_path: Path) -> None:
        before = descendants()
        result = self.shell(tmp_path, "trap '' TERM; setsid sleep 300 & sleep 300 & sleep 300", timeout_s=1.0)
        assert result.timed_out
        wait_for_no_more_than(before)

    def test_a_flood_of_output_is_cut_and_ended(self, tmp_path: Path) -> None:
        result = self.shell(tmp_path, "yes", output_bytes=100_000)
        assert result.output_truncated
        assert len(result.stdout) <= 100_000

    def test_what_is_left_behind_is_ended_and_told(self, tmp_path: Path) -> None:
        before = descendants()
        result = self.shell(tmp_path, "setsid sleep 300 >/dev/null 2>&1 & sleep 0.3; echo hi")
        assert result.stdout == b"hi\n"
        assert "sleep" in result.leftovers
        wait_for_no_more_than(before)

    def test_somebody_s_word_ends_it(self, tmp_path: Path) -> None:
        async def scene(inside: Enclosure) -> ChildResult:
            stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.5, stop.set_result, "cost")
            return await self.run(inside, tmp_path, ["sleep", "300"], stop=stop)

        assert self.within(tmp_path, scene).stopped == "cost"

    def test_cancellation_ends_all(self, tmp_path: Path) -> None:
        before = descendants()

        async def scene(inside: Enclosure) -> None:
            running = asyncio.ensure_future(
                self.run(inside, tmp_path, ["sh", "-c", "setsid sleep 300 & touch up; exec sleep 300"])
            )
            await until((tmp_path / "workspace/up").exists)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        self.within(tmp_path, scene)
        wait_for_no_more_than(before)

    def test_a_server_is_started_and_spoken_with_by_a_program_inside(self, tmp_path: Path) -> None:
        async def scene(inside: Enclosure) -> ChildResult:
            server = ["sh", "-c", 'read line; echo "$line, $TOLD"; cat > after; pwd; echo end']
            beside = await inside.beside(server, cwd=tmp_path / "workspace", env={"TOLD": "told"})
            code = '{ echo hello; echo more; } | "$@"; cat after'
            return await self.run(
                inside, tmp_path, [*beside.prefix, "sh", "-c", code, "sh", *beside.argv], env=beside.env
            )

        said = self.within(tmp_path, scene).stdout.decode().splitlines()
        assert (said[0], said[2:]) == ("hello, told", ["end", "more"])

    def test_closing_twice_is_closing_once(self, tmp_path: Path) -> None:
        async def scene(inside: Enclosure) -> None:
            await self.run(inside, tmp_path, ["true"])
            await inside.close()
            await inside.close()

        self.within(tmp_path, scene)


class IsolatingSandboxContract(SandboxContract):
    """Escape attempts. Each is contained, and where a limit was reached that is told."""

    counts_refused_processes = True
    """Whether findings tell that processes were refused: the kernel tells it of control groups only."""

    def test_it_says_that_it_isolates_and_how(self, tmp_path: Path) -> None:
        sandbox = self.make(self.options())
        assert sandbox.isolates
        self.shell(tmp_path, "true")
        assert self.findings["network"] == self.options().reach
        assert self.findings["limits"].keys() == {"memory", "pids", "disk"}

    def test_files_of_other_trials_are_not_there(self, tmp_path: Path) -> None:
        other = tmp_path / "trial-2"
        other.mkdir()
        (other / "answer").write_text("the-other-answer")
        result = self.shell(
            tmp_path, f"cat {other}/answer ../trial-2/answer; grep -rs the-other-answer / --include=answer; ls -a .."
        )
        assert b"the-other-answer" not in result.stdout
        assert b"trial-2" not in result.stdout

    def test_files_of_this_machine_are_not_there(self, tmp_path: Path) -> None:
        kept = [Path.home(), Path("/root"), Path("/home"), Path("/var/lib"), Path("/etc/ssh")]
        here = {
            f"{found.st_dev}:{found.st_ino}": str(entry)
            for folder in kept
            if os.access(folder, os.R_OK)
            for entry in folder.iterdir()
            for found in [entry.lstat()]
        }
        places = " ".join(f"{folder}/* {folder}/.[!.]*" for folder in kept)
        result = self.shell(tmp_path, f"for p in {places}; do stat -c %d:%i $p 2>/dev/null; done; true")
        leaked = {here[one] for one in result.stdout.decode().split() if one in here}
        # A Python may lie in somebody's home; the folders above it then exist, with nothing else in them.
        above = {str(folder) for root in (sys.prefix, sys.base_prefix) for folder in [Path(root), *Path(root).parents]}
        assert not leaked - above
        mine = _first_line("/etc/shadow")
        assert mine not in self.shell(tmp_path, "cat /etc/shadow /etc/sudoers").stdout

    def test_nothing_of_this_machine_can_be_written(self, tmp_path: Path) -> None:
        places = "/ /usr /usr/bin /etc /bin /lib /opt /var /proc /proc/sys/kernel /sys /sys/fs/cgroup /run"
        result = self.shell(tmp_path, f"for p in {places}; do (: > $p/mst-was-here) 2>/dev/null && echo $p; done; true")
        assert set(result.stdout.decode().split()) <= {"/run"}, "but for what is made for this trial alone"
        assert not Path("/run/mst-was-here").exists()

    def test_links_and_mounts_lead_nowhere(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("outside-the-workspace")
        code = (
            f"ln -s {tmp_path}/secret l; cat l; mount -t proc p /mnt; mount --bind / /tmp; chroot . /bin/sh -c id; true"
        )
        assert b"outside" not in self.shell(tmp_path, code).stdout

    def test_this_process_s_memory_and_environment_are_out_of_reach(self, tmp_path: Path) -> None:
        code = f"cat /proc/{os.getpid()}/environ; kill -0 {os.getpid()} && echo alive; ls /proc | grep -c '^[0-9]'"
        result = self.shell(tmp_path, code)
        assert b"alive" not in result.stdout
        assert int(result.stdout.split()[-1]) < 10, "processes that it sees"

    def test_it_gains_no_rights(self, tmp_path: Path) -> None:
        result = self.shell(tmp_path, "grep -E 'CapEff|CapPrm|NoNewPrivs' /proc/self/status; unshare -Ur true; echo $?")
        lines = dict(line.split(":\t") for line in result.stdout.decode().splitlines()[:-1])
        assert int(lines["CapEff"], 16) == 0
        assert int(lines["CapPrm"], 16) == 0
        assert lines["NoNewPrivs"] == "1"
        assert result.stdout.split()[-1] != b"0", "no namespaces of its own"

    def test_no_descriptor_of_this_process_is_open_in_it(self, tmp_path: Path) -> None:
        with (tmp_path / "held").open("w") as held:
            os.set_inheritable(held.fileno(), True)
            result = self.shell(tmp_path, "ls /proc/self/fd")
        assert set(result.stdout.split()) <= {b"0", b"1", b"2", b"3"}

    def test_without_network_nothing_answers(self, tmp_path: Path) -> None:
        with _listening() as (port, heard):
            code = (
                "import socket\n"
                f"for host, port in (('127.0.0.1', {port}), ('{_own_address()}', {port}), ('1.1.1.1', 53)):\n"
                "    try:\n"
                "        socket.create_connection((host, port), timeout=2); print('reached', host)\n"
                "    except OSError as error: print('no', error)\n"
            )
            result = self.script(tmp_path, code)
        assert [line[:3] for line in result.stdout.splitlines()] == [b"no "] * 3, result
        assert not heard.is_set()

    def test_with_an_open_network_it_may(self, tmp_path: Path) -> None:
        with _listening(_own_address()) as (port, heard):
            code = f"import socket; socket.create_connection(('{_own_address()}', {port}), timeout=5)"
            options = self.options(network="open")
            scene = lambda inside: self.run(inside, tmp_path, [self.python(), "-c", code])  # noqa: E731 - one line
            result = self.within(tmp_path, scene, options)
            assert result.exit_code == 0, result
            assert heard.wait(5)

    def test_a_fork_bomb_stays_small_and_is_told(self, tmp_path: Path) -> None:
        before = descendants()
        # At most 512 processes, should nobody stop it: a test may fail, but not take the machine along.
        code = (
            "import os, time\n"
            "refused = 0\n"
            "for _ in range(9):\n"
            "    try: os.fork()\n"
            "    except OSError: refused += 1\n"
            "open(f'/tmp/{os.getpid()}', 'w').write(str(refused))\n"
            "time.sleep(1)\n"
            "os.getppid() == 1 or print(len(os.listdir('/tmp')), sum(e.isdigit() for e in os.listdir('/proc')))\n"
        )
        result = self.script(tmp_path, code)
        alive = [int(line.split()[1]) for line in result.stdout.splitlines()]
        assert max(alive, default=0) <= 64 + 4, result
        if self.findings["limits"]["pids"] == "kernel" and self.counts_refused_processes:
            assert self.findings["reached"]["pids"] > 0
        wait_for_no_more_than(before)

    def test_a_memory_hog_is_ended_and_told(self, tmp_path: Path) -> None:
        code = "keep = []\nwhile True: keep.append(bytearray(b'x') * (8 << 20))"
        result = self.script(tmp_path, code)
        assert result.stopped == "memory"
        assert result.exit_code != 0
        assert self.findings["reached"]["memory"] > 0

    def test_hogs_that_share_the_work_are_ended_too(self, tmp_path: Path) -> None:
        code = "import os, time\nos.fork(); os.fork()\nkeep = bytearray(b'x') * (100 << 20)\ntime.sleep(1.5)\n"
        result = self.script(tmp_path, code)
        assert self.findings.get("reached", {}).get("memory", 0) > 0, result

    def test_memory_that_is_called_files_is_bounded_too(self, tmp_path: Path) -> None:
        result = self.shell(tmp_path, "head -c 900000000 /dev/zero > /dev/shm/big; wc -c < /dev/shm/big")
        assert int(result.stdout or b"0") <= 256 * MIB

    def test_a_disk_hog_is_ended_and_told(self, tmp_path: Path) -> None:
        result = self.shell(tmp_path, "while :; do head -c 20000000 /dev/zero >> big; sleep 0.05; done")
        assert result.stopped == "disk"
        assert self.findings["reached"]["disk"] > 0

    def test_so_is_one_that_hides_in_its_temporary_folder(self, tmp_path: Path) -> None:
        result = self.shell(tmp_path, 'while :; do head -c 20000000 /dev/zero >> "$TMPDIR/big"; sleep 0.05; done')
        assert result.stopped == "disk"

    def test_one_that_forgets_its_environment_and_family_is_ended(self, tmp_path: Path) -> None:
        before = descendants()
        mark = f"mst-lost-{os.getpid()}"
        code = f"env -i setsid sh -c 'exec -a {mark} sleep 300' 2>/dev/null & env -i setsid sleep 298 & sleep 0.2"
        self.shell(tmp_path, code)
        wait_for_no_more_than(before)
        assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "298"]]

    def test_two_trials_at_once_do_not_see_each_other(self, tmp_path: Path) -> None:
        async def whole() -> list[ChildResult]:
            return await asyncio.gather(*(self._trial(tmp_path / str(n)) for n in range(3)))

        for result in asyncio.run(whole()):
            assert result.stdout.split()[0] == b"1", result
            assert int(result.stdout.split()[-1]) < 10

    async def _trial(self, folder: Path) -> ChildResult:
        for name in ("workspace", "scratch"):
            (folder / name).mkdir(parents=True)
        inside = self.make(self.options()).enter(Folders(workspace=folder / "workspace", scratch=folder / "scratch"))
        try:
            code = "touch mine; ls | wc -l; sleep 1; ls -d /proc/[0-9]* | wc -l"
            return await self.run(inside, folder, ["sh", "-c", code])
        finally:
            await inside.close()


async def until(holds: Callable[[], bool], within_s: float = _PATIENCE_S) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.02)


def _first_line(path: str) -> bytes:
    try:
        return Path(path).read_bytes().splitlines()[0]
    except (OSError, IndexError):
        return b"there is none to be read"


def _own_address() -> str:
    """An address of this machine that is not loopback, where there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


class _listening:  # noqa: N801 - used like a function
    """A server that says whether anybody came."""

    def __init__(self, address: str = "0.0.0.0") -> None:
        self._server = socket.create_server((address, 0))
        self._server.settimeout(0.1)
        self._heard = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                continue
            connection.close()
            self._heard.set()

    def __enter__(self) -> tuple[int, threading.Event]:
        self._thread.start()
        return self._server.getsockname()[1], self._heard

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._server.close()
