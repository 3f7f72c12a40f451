"""A worker without room grants itself nothing, and leaves the shard to others."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import structlog

from mst import __version__
from mst.fleet.host import Host
from mst.fleet.metrics import Uncounted
from mst.fleet.signing import Verifier, sign
from mst.fleet.task import handle
from mst.fleet.worker import _Here
from mst.model.fleet import Hint, Message
from mst.store.uri import object_uri, open_store


class Room:
    def __init__(self, lack="0 GiB are free"):
        self.said = lack

    def lack(self):
        return self.said


@pytest.fixture
def worker(signing_key, trusted, envelope):
    """A worker's means, with what it sent and noted, and a message for it."""
    sent, noted = [], []
    store = open_store("memory:room")
    place = f"team-a/dispatches/{envelope.run_id}/d1"
    envelope = envelope.model_copy(
        update={
            "mst": __version__,
            "deadline": datetime.now(UTC) + timedelta(hours=1),
            "bundle_uri": object_uri(store, f"{place}/bundles/{'a' * 64}"),
            "results_uri": object_uri(store, f"{place}/shards/3"),
        }
    )
    ledger = SimpleNamespace(
        acquire=lambda *_given, **_options: pytest.fail("it granted itself a shard"),
        mark_sent=noted.append,
    )
    host = SimpleNamespace(
        **dict.fromkeys(Host.__dataclass_fields__)
        | {
            "name": "w1",
            "queues": frozenset({envelope.queue}),
            "room": Room(),
            "store": store,
            "store_uri": store.uri,
            "verifier": Verifier(trusted),
            "ledger": ledger,
            "send": lambda message, queue, task_id: sent.append((message, queue, task_id)),
            "counts": Uncounted(),
        }
    )
    message = Message(envelope=sign(envelope, signing_key), hint=Hint(attempt=2))
    return SimpleNamespace(host=host, message=message, sent=sent, noted=noted, envelope=envelope)


def test_what_comes_to_a_worker_without_room_goes_back_to_its_queue(worker):
    handle(worker.host, worker.message.to_dict())
    assert worker.sent == [(worker.message, worker.envelope.queue, f"{worker.envelope.ref}.a2")]
    assert worker.noted == [worker.envelope.ref], "no janitor sends it beside this one"


def test_a_broker_that_takes_nothing_back_ends_no_worker(worker):
    from mst.errors import BrokerError

    def away(*_given):
        raise BrokerError("away")

    worker.host.send = away
    handle(worker.host, worker.message.to_dict())
    assert worker.noted == []


def test_a_worker_says_once_that_it_rests_and_once_that_it_goes_on():
    told, room = [], Room(None)
    presence = SimpleNamespace(
        rest=lambda name, why, ttl_s: told.append(why), rest_no_more=lambda name: told.append("room")
    )
    here = _Here(presence, "w1", ["q"], room)
    with structlog.testing.capture_logs() as logged:
        for lack in (None, "full", "fuller", None, None):
            room.said = lack
            here._look_for_room()
    assert told == ["full", "fuller", "room"], "status has the newest figure"
    assert [line["event"] for line in logged] == ["no_room", "room_again"]
    assert logged[0]["reason"] == "full; no shard is taken until there is room"
