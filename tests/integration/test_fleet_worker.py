"""A real Celery worker with our application: what it runs, what it refuses, and when it does not start."""

import contextlib
import json
import os
import pickle  # noqa: TID251 - to show that it is refused
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode

import pytest

from mst.fleet.app import make_app, worker_argv
from mst.fleet.connect import connect
from mst.testing.servers import valkey

pytestmark = pytest.mark.server

QUEUE = "mst.grade.0.1.0"
WORKER = """
import json, os, sys, threading
from pathlib import Path
from mst.fleet.app import make_app

def task(message):
    folder = Path(os.environ["SEEN"])
    (folder / f"{message['n']}.tmp").write_text(json.dumps(message))
    (folder / f"{message['n']}.tmp").rename(folder / f"{message['n']}.json")
    if message.get("hold"):
        threading.Event().wait(60)

refused = []
app = make_app(
    os.environ["BROKER"],
    task=task,
    refused=lambda: refused.append(1),
    may_take=lambda: not (Path(os.environ["SEEN"]) / "full").exists(),
)
app.conf.update(json.loads(os.environ.get("CHANGE", "{}")))
app.worker_main(sys.argv[1:])
print("refused in all:", len(refused))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with valkey(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def seen(tmp_path, server):
    folder = tmp_path / "seen"
    folder.mkdir()
    client = connect(server.url)
    client.flushall()
    client.close()
    return folder


@pytest.fixture
def start(server, seen):
    """Starts workers; whatever a test does, none outlives it."""
    with contextlib.ExitStack() as stack:

        def start_one(argv=None, **change):
            environ = {**os.environ, "BROKER": server.url, "SEEN": str(seen), "CHANGE": json.dumps(change)}
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKER, *(argv or worker_argv(queues=[QUEUE], slots=1, name="w@here"))],
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            stack.callback(worker.communicate)
            stack.callback(worker.kill)
            return worker

        yield start_one


def finish(worker):
    worker.send_signal(signal.SIGTERM)
    output, _ = worker.communicate(timeout=90)
    return output


def until_seen(folder, number):
    deadline = time.monotonic() + 90
    while not (folder / f"{number}.json").exists():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def send(app, number, **message):
    app.send_task(
        "mst.shard", args=[{"n": number, **message}], queue=QUEUE, shadow="grade:e", argsrepr=f"<shard {number}>"
    )


def send_until_seen(app, folder, number):
    """As a janitor does: what a worker's dying connection took out of the queue is gone."""
    deadline = time.monotonic() + 90
    while not (folder / f"{number}.json").exists():
        assert time.monotonic() < deadline
        send(app, number)
        threading.Event().wait(0.5)


def test_a_message_is_run_and_acknowledged_early(server, seen, start):
    app, worker = make_app(server.url), start()
    try:
        send(app, 1)
        until_seen(seen, 1)
    finally:
        output = finish(worker)
    assert json.loads((seen / "1.json").read_text()) == {"n": 1}
    assert worker.returncode == 0, output
    client = connect(server.url)
    assert client.hlen("mst:unacked") == 0
    assert [key for key in client.keys("*") if not key.startswith("mst:")] == []
    client.close()
    password = server.url.split(":")[2].split("@")[0]
    assert password not in output


def forged(body, content_type="application/json", encoding="utf-8", task="mst.shard", **properties):
    """A message as anyone who may write to Redis could put it on the queue."""
    return json.dumps(
        {
            "body": b64encode(body).decode(),
            "content-encoding": encoding,
            "content-type": content_type,
            "headers": {"lang": "py", "task": task, "id": "x", "root_id": "x", "parent_id": None, "group": None},
            "properties": {
                "correlation_id": "x",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": QUEUE},
                "priority": 0,
                "body_encoding": "base64",
                "delivery_tag": os.urandom(8).hex(),
                **properties,
            },
        }
    )


def test_messages_of_any_other_kind_are_refused_counted_and_end_no_worker(server, seen, start):
    client, app = connect(server.url), make_app(server.url)
    then = {"task": "mst.shard", "args": [{"n": 66}], "kwargs": {}, "options": {"queue": QUEUE}, "subtask_type": None}
    plain = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    bodies = [
        forged(json.dumps([[{"n": 10}], {}, {**plain, part: [then]}]).encode())
        for part in ("callbacks", "errbacks", "chain")
    ]
    bodies.append(forged(json.dumps([[{"n": 11}], {}, {**plain, "chord": then}]).encode()))
    bodies.append(forged(json.dumps([[{"n": 12}], {}, plain]).encode(), task="celery.backend_cleanup"))
    bodies.append(forged(json.dumps([[{"n": 13}], {}, plain]).encode(), task="os.system"))
    bodies.append(forged(json.dumps([[{"n": 13}], {}, plain]).encode(), task=["os.system"]))
    bodies.append(forged(pickle.dumps([[{"n": 14}], {}, plain]), "application/x-python-serialize", "binary"))
    bodies.append(forged(b"not JSON"))
    bodies.append(forged(json.dumps([[{"n": 15}], {}, plain]).encode(), body_encoding="rot13"))
    bodies.append(forged(json.dumps([[{"n": 16}], {}, plain]).encode(), delivery_info="x"))
    bodies += ["not JSON", b"\xff\xfe", "null", "{}", "[" * 100_000]
    for body in bodies:
        client.lpush(f"mst:{QUEUE}", body)
    # what waits for its acknowledgement is put back when it is older than the visibility timeout
    client.hset("mst:unacked", "tag", "not JSON")
    client.zadd("mst:unacked_index", {"tag": 1})
    worker = start()
    try:
        send(app, 2)
        until_seen(seen, 2)
    finally:
        output = finish(worker)
    assert [path.name for path in seen.iterdir()] == ["2.json"], output
    assert output.count("message_refused") == len(bodies) + 1
    assert f"refused in all: {len(bodies) + 1}" in output
    assert "Traceback" not in output
    assert client.hlen("mst:unacked") == 0
    client.close()


def test_a_broker_that_refuses_for_a_while_ends_no_worker(server, seen, start):
    client, app = connect(server.url), make_app(server.url)
    worker = start()
    send(app, 1)
    until_seen(seen, 1)
    # of another kind than a queue, as whoever may write there can leave it
    client.set(f"mst:{QUEUE}", "not a queue")
    threading.Event().wait(2)
    client.delete(f"mst:{QUEUE}")
    send_until_seen(app, seen, 2)
    # what is taken cannot be noted as such: as in a broker that is full
    client.set("mst:unacked", "not a hash")
    send(app, 3)
    threading.Event().wait(2)
    client.delete("mst:unacked")
    send_until_seen(app, seen, 4)
    client.close()
    assert "Unrecoverable" not in finish(worker)


@pytest.mark.parametrize(
    ("argv", "change", "fault"),
    [
        (["--pool=solo"], {}, "pool is solo, must be threads"),
        ([], {"task_acks_late": True}, "task_acks_late is True, must be False"),
        (["--prefetch-multiplier=4"], {}, "prefetch multiplier is 4, must be 1"),
        (["--autoscale=4,1"], {}, "--autoscale is given, must not be"),
    ],
)
def test_a_worker_with_other_settings_ends_with_2_before_it_takes_a_message(server, start, argv, change, fault):
    send(make_app(server.url), 3)
    worker = start([*worker_argv(queues=[QUEUE], slots=1, name="w@here"), *argv], **change)
    output, _ = worker.communicate(timeout=90)
    assert worker.returncode == 2, output
    assert f"mst worker: {fault}" in output
    assert "Traceback" not in output
    client = connect(server.url)
    assert client.llen(f"mst:{QUEUE}") == 1
    client.close()


def test_a_worker_started_with_plain_celery_flags_names_all_that_is_missing(start):
    worker = start(["worker", "--pool=solo", f"--queues={QUEUE}"])
    output, _ = worker.communicate(timeout=90)
    assert worker.returncode == 2, output
    for fault in ("pool is solo", "--without-gossip is missing", "--without-mingle is missing"):
        assert fault in output


def test_a_busy_worker_leaves_waiting_messages_in_the_queue(server, seen, start):
    app, client = make_app(server.url), connect(server.url)
    start()
    send(app, 1, hold=True)
    until_seen(seen, 1)
    for number in (2, 3, 4):
        send(app, number)
    # Long enough for a worker that prefetches to have taken them: it would at once.
    threading.Event().wait(1.5)
    assert client.llen(f"mst:{QUEUE}") == 3
    assert client.hlen("mst:unacked") == 0
    client.close()


def test_a_worker_that_may_take_nothing_leaves_messages_to_others_and_goes_on_by_itself(server, seen, start):
    app, full = make_app(server.url), seen / "full"
    worker = start()
    send(app, 1)
    until_seen(seen, 1)
    full.touch()
    client = connect(server.url)
    try:
        # the request that waits at the broker may take one
        for number in (2, 3):
            send(app, number)
        until_left(client, worker)
        full.unlink()
        until_seen(seen, 3)
        until_seen(seen, 2)
    finally:
        client.close()
        output = finish(worker)
    assert worker.returncode == 0, output


def until_left(client, worker):
    """A message stays in the queue although its worker is idle, for longer than a request waits at the broker."""
    asked = threading.Event()
    for _ in range(3):
        assert worker.poll() is None
        assert client.llen(f"mst:{QUEUE}") >= 1
        asked.wait(0.5)
