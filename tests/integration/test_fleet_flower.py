"""Flower beside a real broker and worker: what it shows, to whom, and that it can change nothing."""

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from mst.fleet.app import make_app, worker_argv
from mst.fleet.connect import connect
from mst.fleet.host import celery_sender
from mst.model.fleet import Hint, Message, Signed
from mst.testing.servers import free_ports, valkey

pytestmark = pytest.mark.server
pytest.importorskip("flower", reason="pip install 'mst[flower]'")

QUEUE = "mst.grade.0.1.0"
AUTH = "reader:a-long-password"
FLOWER = """
import os
from mst.fleet.flower import FlowerSettings, run_flower

run_flower(os.environ["BROKER"], FlowerSettings(port=int(os.environ["PORT"]), basic_auth=os.environ["AUTH"]))
"""
WORKER = """
import os, sys
from mst.fleet.app import make_app

make_app(os.environ["BROKER"], task=lambda message: None).worker_main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with valkey(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def flower(server, tmp_path_factory):
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("flower")
    environ = {**os.environ, "BROKER": server.url, "PORT": str(port), "AUTH": AUTH, "FLOWER_READ_ONLY": "false"}
    programs = [[FLOWER], [WORKER, *worker_argv(queues=[QUEUE], slots=1, name="w@here")]]
    running = []
    with (folder / "log").open("wb") as log:
        for program in programs:
            argv = [sys.executable, "-c", *program]
            running.append(subprocess.Popen(argv, env=environ, stdout=log, stderr=log))
        try:
            until(lambda: get(port, "/healthcheck", auth=None)[0] == 200)
            client = connect(server.url)
            until(lambda: client.pubsub_numpat() > 0)
            client.close()
            yield port, folder / "log", running[0]
        finally:
            for process in running:
                process.kill()
                process.wait()


def until(condition):
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.1)


def get(port, path, *, auth=AUTH, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    if auth:
        request.add_header("Authorization", f"Basic {base64.b64encode(auth.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_it_shows_run_shard_and_attempt_and_no_password(server, flower):
    port, log, process = flower
    app = make_app(server.url)
    shown = "run 20260501T120000Z-abc123, d1, shard 7, attempt 2"
    app.send_task(
        "mst.shard",
        args=[{"envelope": "signed"}],
        queue=QUEUE,
        task_id="20260501T120000Z-abc123.d1.grade.7.a2",
        shadow="grade:e",
        argsrepr=shown,
        kwargsrepr="",
    )

    def tasks():
        return json.loads(get(port, "/api/tasks")[1])

    until(lambda: any(one["state"] == "SUCCESS" for one in tasks().values()))
    (task,) = tasks().values()
    assert (task["name"], task["args"], task["uuid"]) == ("grade:e", shown, "20260501T120000Z-abc123.d1.grade.7.a2")
    password = server.url.split(":")[2].split("@")[0]
    pages = "".join(get(port, path)[1] for path in ("/", "/tasks", "/broker", "/workers", "/api/tasks", "/metrics"))
    assert len(pages) > 1000
    for secret in (password, AUTH.split(":")[1], "signed"):
        assert secret not in pages
    arguments = Path(f"/proc/{process.pid}/cmdline").read_text()
    assert AUTH not in arguments
    assert password not in log.read_text()


@pytest.mark.parametrize("path", ["/", "/tasks", "/api/tasks", "/broker"])
def test_without_the_password_nothing_is_shown(flower, path):
    assert get(flower[0], path, auth=None)[0] == 401
    assert get(flower[0], path, auth="reader:wrong")[0] == 401


@pytest.mark.parametrize(
    "path", ["/api/worker/shutdown/w@here", "/api/task/async-apply/mst.shard", "/api/task/revoke/x"]
)
def test_it_can_change_nothing_even_if_the_environment_asks_for_it(flower, path):
    assert get(flower[0], path, method="POST")[0] == 403


def play(send, runs):
    """A hundred shards of each run, as a coordinator sends them: three events a shard."""
    for run in runs:
        run_id = f"20260501T12{run // 60:02}{run % 60:02}Z-{run:06x}"
        for shard in range(100):
            payload = {"runId": run_id, "dispatch": "d1", "work": "grade", "shard": shard, "evalName": f"e{run % 3}"}
            signed = Signed(payload=payload, signature="AAAA", key_id="0" * 16)
            attempt = 1 + shard % 3
            send(Message(envelope=signed, hint=Hint(attempt=attempt)), QUEUE, f"{run_id}.d1.grade.{shard}.a{attempt}")


def series(port):
    """Flower's time series and their values."""
    lines = [line for line in get(port, "/metrics")[1].splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def of_tasks(port):
    """The series that have a task's name; a worker's own begin with its first heartbeat, at any time."""
    return {name for name in series(port) if 'task="' in name}


def ended(port):
    """How many played tasks Flower saw end."""
    played = {name: value for name, value in series(port).items() if re.search(r'task="grade:e\d"', name)}
    return sum(
        value for name, value in played.items() if name.startswith("flower_events_total{") and "succeeded" in name
    )


def test_labels_of_metrics_stay_bounded_over_ten_thousand_events_of_tasks(server, flower):
    port = flower[0]
    send = celery_sender(make_app(server.url))
    play(send, range(3))
    until(lambda: ended(port) == 300)
    few = of_tasks(port)
    play(send, range(3, 34))
    until(lambda: ended(port) == 3400)
    assert of_tasks(port) == few
    assert len(series(port)) < 200
    assert not [name for name in series(port) if "20260501T12" in name]
