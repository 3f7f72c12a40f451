"""The embedded broker: private, durable, and never left behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import redis

from mst.errors import BrokerError, RunnerError, UsageError
from mst.fleet import embedded
from mst.fleet.broker_check import check_broker
from mst.fleet.connect import connect
from mst.fleet.embedded import EmbeddedBroker
from mst.fleet.embedded_fleet import KEPT_LOGS, EmbeddedFleet

pytestmark = pytest.mark.server

OWNER = """
import sys, threading
from mst.fleet.embedded import EmbeddedBroker
from mst.fleet.embedded_fleet import EmbeddedFleet
broker = EmbeddedBroker.start()
print(broker.folder, flush=True)
threading.Event().wait()
"""


@pytest.fixture(scope="module", autouse=True)
def _needs_a_server():
    try:
        embedded.find_server()
    except UsageError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture
def broker():
    with EmbeddedBroker.start() as running:
        yield running


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def pid_of(broker):
    client = connect(broker.url)
    try:
        return int(client.info("server")["process_id"])
    finally:
        client.close()


def test_it_is_fit_and_private(broker):
    assert check_broker(broker.url).warnings == ()
    assert broker.folder.stat().st_mode & 0o777 == 0o700
    assert (broker.folder / "broker.conf").stat().st_mode & 0o777 == 0o600
    assert (broker.folder / "s").stat().st_mode & 0o077 == 0
    connections = psutil.Process(pid_of(broker)).net_connections(kind="inet")
    assert connections == []


def test_its_password_is_needed_and_shown_nowhere(broker):
    password = connect(broker.url).connection_pool.connection_kwargs["password"]
    wrong = broker.url.replace(password, "wrong")
    with pytest.raises(BrokerError, match="refused the password"):
        check_broker(wrong)
    shown = repr(broker)
    for pid in (pid_of(broker), psutil.Process(pid_of(broker)).ppid()):
        shown += " ".join(psutil.Process(pid).cmdline()) + repr(psutil.Process(pid).environ())
    assert len(password) > 30
    assert password not in shown


def test_stopping_leaves_nothing(broker):
    pid, folder = pid_of(broker), broker.folder
    broker.stop()
    broker.stop()
    assert not psutil.pid_exists(pid)
    assert not folder.exists()
    assert not broker.is_alive()


def test_a_killed_broker_is_started_again_on_its_file(broker):
    client = connect(broker.url)
    client.set("kept", "yes")
    first = client.info("server")["process_id"]
    os.kill(first, signal.SIGKILL)

    def is_back():
        try:
            return client.info("server")["process_id"] != first
        except redis.RedisError:
            return False

    until(is_back)
    assert client.get("kept") == "yes"
    client.close()


def test_it_ends_with_an_owner_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        folder = Path(owner.stdout.readline().strip())
        guard = next(one for one in psutil.Process(owner.pid).children() if "broker_guard" in " ".join(one.cmdline()))
        (server,) = guard.children()
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
    until(lambda: not server.is_running() and not guard.is_running())
    until(lambda: not folder.exists())


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_it_ends_with_a_guard_that_is_killed(broker):
    server = psutil.Process(pid_of(broker))
    os.kill(server.ppid(), signal.SIGKILL)
    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


def test_ctrl_c_in_the_terminal_does_not_reach_it(broker):
    server = psutil.Process(pid_of(broker))
    assert os.getpgid(server.pid) != os.getpgid(0)
    assert os.getsid(server.pid) != os.getsid(0)


def test_a_server_that_cannot_start_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(embedded.tempfile, "gettempdir", lambda: str(tmp_path))
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho of another kind\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(BrokerError, match=r"did not start: of another kind; .*MST_BROKER_URL") as caught:
        EmbeddedBroker.start(program)
    assert str(program) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["redis-server"]


def test_a_fleet_says_what_it_starts_and_why_its_workers_do_not_come_up(tmp_path):
    said = []
    earlier, foreign = [tmp_path / f"embedded-{number:03}.log" for number in range(KEPT_LOGS + 2)], tmp_path / "notes"
    for age, path in enumerate([*earlier, foreign]):
        path.touch()
        os.utime(path, (10**9 - age, 10**9 - age))
    with pytest.raises(RunnerError) as caught:
        EmbeddedFleet(store_uri="", workers=1, queue="mst.grade", logs=tmp_path, say=said.append)
    assert [path for path in earlier if not path.exists()] == earlier[KEPT_LOGS:], "the oldest go"
    assert said == ["starting a broker and 1 worker here, for this command only; that may take 75 s"]
    [log] = set(tmp_path.iterdir()) - {*earlier, foreign}
    assert foreign.exists()
    why = rf"no embedded worker came up: it ended with 2; mst: MST_STORE .*; all of it: {log}"
    assert re.fullmatch(why, str(caught.value))
