import json
from base64 import b64encode

import pytest

from mst.fleet.gate import fault_of

NO_CANVAS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
THEN = {"task": "mst.shard", "args": [{}], "kwargs": {}, "options": {}, "subtask_type": None}
GONE = object()


def body_of(value):
    return b64encode(json.dumps(value).encode()).decode()


BODY = body_of([[{"envelope": {}}], {}, NO_CANVAS])


def message(part=None, name=None, value=None):
    """One as a coordinator sends it, with one thing changed."""
    whole = {
        "body": BODY,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py", "task": "mst.shard", "id": "r.d1.grade.0.a1", "shadow": "grade:e", "eta": None,
            "expires": None, "group": None, "group_index": None, "retries": 0, "timelimit": [None, None],
            "root_id": "r.d1.grade.0.a1", "parent_id": None, "argsrepr": "<r>", "kwargsrepr": "", "origin": "gen1@here",
            "ignore_result": None, "replaced_task_nesting": 0, "stamped_headers": None, "stamps": {},
        },
        "properties": {
            "correlation_id": "r.d1.grade.0.a1", "reply_to": "04e758f4", "delivery_mode": 2, "priority": 0,
            "delivery_info": {"exchange": "", "routing_key": "mst.x"}, "body_encoding": "base64",
            "delivery_tag": "a9cd45b3",
        },
    }  # fmt: skip
    if name is not None:
        place = whole if part is None else whole[part]
        if value is GONE:
            del place[name]
        else:
            place[name] = value
    return whole


def test_what_a_coordinator_sends_is_taken():
    assert fault_of(message()) is None


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("headers", "parent_id", "r.d1.grade.3.a1"),  # a worker that gives a shard back sends it from within a task
        ("headers", "redelivered", True),
        ("properties", "delivery_info", {"exchange": "", "routing_key": "q", "redelivered": True}),
        ("headers", "a_header_of_a_later_celery", 1),
    ],
)
def test_what_celery_adds_of_its_own_is_taken(part, name, value):
    assert fault_of(message(part, name, value)) is None


@pytest.mark.parametrize("whole", [None, [], 7, "text", {}])
def test_what_is_no_message_is_not_taken(whole):
    assert fault_of(whole)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        (None, "properties", GONE),
        (None, "properties", []),
        (None, "headers", GONE),
        (None, "headers", None),
        (None, "content-type", "application/x-python-serialize"),
        (None, "content-type", None),
        (None, "content-encoding", "binary"),
        (None, "body", None),
        (None, "body", "%%%"),
        (None, "body", b64encode(b"[" * 100_000).decode()),
        (None, "body", b64encode(b"\xff\xfe").decode()),
        (None, "body", body_of("hi")),
        (None, "body", body_of([1])),
        (None, "body", body_of([[], {}, NO_CANVAS])),
        (None, "body", body_of([[{}, {}], {}, NO_CANVAS])),
        (None, "body", body_of([["text"], {}, NO_CANVAS])),
        (None, "body", body_of([[{}], [1], NO_CANVAS])),
        (None, "body", body_of([[{}], {"message": {}}, NO_CANVAS])),
        (None, "body", body_of([[{}], {}, None])),
        (None, "body", body_of([[{"x": "y" * 70_000}], {}, NO_CANVAS])),
        (None, "body", body_of([[{"x": {"__type__": "datetime", "__value__": "never"}}], {}, NO_CANVAS])),
        *(
            (None, "body", body_of([[{}], {}, {**NO_CANVAS, one: [THEN]}]))
            for one in ("callbacks", "errbacks", "chain")
        ),
        (None, "body", body_of([[{}], {}, {**NO_CANVAS, "chord": THEN}])),
        ("headers", "task", "os.system"),
        ("headers", "task", "celery.backend_cleanup"),
        ("headers", "task", ["mst.shard"]),
        ("headers", "task", GONE),
        ("headers", "id", GONE),
        ("headers", "id", {"a": 1}),
        ("headers", "shadow", {"a": 1}),
        ("headers", "shadow", "x" * 2000),
        ("headers", "argsrepr", [1]),
        ("headers", "eta", "2099-01-01T00:00:00+00:00"),
        ("headers", "expires", "x"),
        ("headers", "timelimit", [0.001, 0.001]),
        ("headers", "timelimit", "x"),
        ("headers", "retries", 3),
        ("headers", "group", "g"),
        ("headers", "stamps", {"a": [1]}),
        ("headers", "stamped_headers", ["a"]),
        ("headers", "compression", "zlib"),
        ("properties", "delivery_tag", GONE),
        ("properties", "delivery_tag", [1]),
        ("properties", "delivery_info", "x"),
        ("properties", "delivery_info", {}),
        ("properties", "body_encoding", "rot13"),
        ("properties", "body_encoding", GONE),
    ],
)
def test_what_nobody_of_ours_sends_is_not_taken_and_not_quoted(part, name, value):
    fault = fault_of(message(part, name, value))
    assert fault
    assert "os.system" not in fault
    assert len(fault) < 200
