"""`mst fleet gc` on a real broker: what is over goes, what is at work stays, and nothing of a result is touched."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from mst.errors import BrokerError
from mst.fleet.app import make_app
from mst.fleet.connect import connect
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.gc import Leftovers
from mst.fleet.host import celery_sender
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_records import EntrySeed, Head
from mst.fleet.presence import Presence
from mst.model.fleet import Hint, Message, ShardLimits, Signed
from mst.testing.commandline import run_mst, until
from mst.testing.equality import differences
from mst.testing.fleet import Bed, fleet
from mst.testing.servers import valkey

pytestmark = pytest.mark.server

RUN = "20260501T120000Z-abc123"
QUEUE = "mst.grade.0.1.0"
TOKEN = "a" * 16


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with valkey(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def client(server):
    client = connect(server.url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def book(client):
    return DispatchBook(client)


def write(client, dispatch, *, close=False, held=False):
    """A dispatch of two shards with everything that belongs to one; returns its scope."""
    head = Head(
        run_id=RUN, dispatch=dispatch, work="grade", eval_name="e", queue=QUEUE,
        deadline=datetime.now(UTC) + timedelta(hours=1), limits=ShardLimits(lease_ttl_s=60),
        dispatch_uri="file:/store/e/dispatches",
    )  # fmt: skip
    book = DispatchBook(client)
    signed = Signed(payload={"x": 1}, key_id="0" * 16, signature="AAAA")
    book.write_dispatch(head, [EntrySeed(shard=number, units=4, envelope=signed) for number in range(2)])
    client.hset(f"mst:grant:{head.scope}", "1", "sealed")
    client.xadd(f"mst:{{{head.scope}}}:tokens", {"request": "{}"})
    client.hset(f"mst:spend:{RUN}", "sum", "1 1")
    if held:
        assert Ledger(client).acquire(head.ref(0), worker="w1", token=TOKEN).answer == "granted"
    if close:
        book.close_dispatch(head.scope)
    return head.scope


def send(server, scope, shard):
    run_id, dispatch, work = scope.rsplit(".", 2)
    payload = {"runId": run_id, "dispatch": dispatch, "work": work, "shard": shard, "evalName": "e"}
    signed = Signed(payload=payload, signature="AAAA", key_id="0" * 16)
    celery_sender(make_app(server.url))(Message(envelope=signed, hint=Hint(attempt=1)), QUEUE, f"{scope}.{shard}.a1")


def collect(client):
    leftovers = Leftovers(client)
    return [one for one in leftovers.find() if leftovers.remove(one)]


def of(client, scope):
    return [key for key in client.scan_iter() if scope in key]


def test_a_closed_dispatch_goes_whole_and_an_open_one_stays(client):
    over, going = write(client, "d1", close=True), write(client, "d2")
    before = sorted(of(client, going))
    gone = collect(client)
    assert {one.name for one in gone} == {over}
    assert {one.kind for one in gone} == {"dispatch", "grant"}
    assert of(client, over) == []
    assert sorted(of(client, going)) == before
    assert DispatchBook(client).open_dispatches() == [going]
    assert client.exists(f"mst:spend:{RUN}"), "a resume goes on from what was spent"
    assert collect(client) == []


def test_a_closed_dispatch_of_which_a_worker_still_holds_a_shard_stays(client):
    scope = write(client, "d1", close=True, held=True)
    before = sorted(of(client, scope))
    assert collect(client) == []
    assert sorted(of(client, scope)) == before


def test_messages_of_closed_dispatches_go_and_others_stay_in_their_order(server, client):
    over, going = write(client, "d1", close=True), write(client, "d2")
    for scope, shard in ((going, 0), (over, 0), (going, 1), (over, 1)):
        send(server, scope, shard)
    client.rpush(f"mst:{QUEUE}", "not a message")
    waiting = client.lrange(f"mst:{QUEUE}", 0, -1)
    gone = [one for one in collect(client) if one.kind == "message"]
    assert sorted(one.name for one in gone) == [f"{over}.0.a1", f"{over}.1.a1"]
    assert client.lrange(f"mst:{QUEUE}", 0, -1) == [text for text in waiting if f"{over}." not in text]


def test_an_entry_in_the_list_of_open_dispatches_without_a_dispatch_goes(client):
    scope, going = write(client, "d1"), write(client, "d2")
    client.delete(f"mst:{{{scope}}}:head")
    assert [(one.kind, one.name) for one in collect(client)] == [("entry", scope)]
    assert DispatchBook(client).open_dispatches() == [going]


def test_workers_that_are_gone_go_with_what_they_were_asked_and_live_ones_stay(client):
    presence = Presence(client)
    presence.announce("live", QUEUE, ttl_s=60)
    client.zadd(f"mst:workers:{QUEUE}", {"dead": 1})
    presence.ask_to_drain("live")
    presence.ask_to_drain("dead")
    assert sorted((one.kind, one.name) for one in collect(client)) == [("drain", "dead"), ("worker", "dead")]
    assert presence.workers(QUEUE) == ["live"]
    assert client.zrange(f"mst:workers:{QUEUE}", 0, -1) == ["live"]
    assert presence.is_asked_to_drain("live")


def test_a_worker_that_comes_back_between_looking_and_removing_stays(client):
    client.zadd(f"mst:workers:{QUEUE}", {"back": 1})
    leftovers = Leftovers(client)
    [found] = leftovers.find()
    Presence(client).announce("back", QUEUE, ttl_s=60)
    assert not leftovers.remove(found)
    assert Presence(client).workers(QUEUE) == ["back"]


def test_another_pools_keys_are_not_touched(client):
    write(client, "d1", close=True)
    client.set("other:{x}:head", "1")
    client.zadd("other:workers:q", {"dead": 1})
    collect(client)
    assert sorted(client.scan_iter("other:*")) == ["other:workers:q", "other:{x}:head"]


def test_a_head_under_a_name_that_means_others_takes_none_of_them(client):
    scope, going = write(client, "d1", close=True), write(client, "d2")
    client.copy(f"mst:{{{scope}}}:head", "mst:{*}:head")
    client.copy(f"mst:{{{scope}}}:head", "mst:{20260501T1*}:head")
    before = sorted(of(client, going))
    collect(client)
    assert sorted(of(client, going)) == before


def test_a_damaged_dispatch_does_not_hide_others(client):
    scope, spoiled = write(client, "d1", close=True), write(client, "d2", close=True)
    client.hdel(f"mst:{{{spoiled}}}:head", "limits")
    assert {one.name for one in collect(client)} == {scope}
    assert of(client, spoiled)


def test_a_broker_that_is_gone_is_an_error(tmp_path):
    with valkey(tmp_path) as server:
        leftovers = Leftovers(connect(server.url, answer_s=1))
    with pytest.raises(BrokerError):
        list(leftovers.find())


def test_the_command_says_what_would_go_then_removes_it_and_shows_no_message(server, client, tmp_path):
    scope = write(client, "d1", close=True)
    send(server, scope, 0)
    env = {"MST_BROKER_URL": server.url}
    dry = run_mst("fleet", "gc", "--dry-run", "--json", cwd=tmp_path, env=env)
    assert dry.code == 0, dry.err
    told = json.loads(dry.out)
    assert told["dryRun"]
    assert {one["kind"] for one in told["removed"]} == {"dispatch", "grant", "message"}
    assert "AAAA" not in dry.out
    assert of(client, scope)
    said = run_mst("fleet", "gc", cwd=tmp_path, env=env)
    assert said.code == 0, said.err
    assert f"dispatch {scope}: closed" in said.out
    assert of(client, scope) == []
    assert client.llen(f"mst:{QUEUE}") == 0


def test_after_real_work_the_broker_is_cleared_and_the_run_and_the_fleet_go_on(tmp_path):
    with fleet(tmp_path / "fleet") as running:
        bed = Bed(running, tmp_path / "quiz")
        here = bed.here()
        bed.ready(1)
        for _ in range(2):
            said = bed.grade(shards=2)
            assert said.code in (0, 1), said.err
            scope = bed.scope(bed.newest())
            assert of(running.client, scope)
            cleared = bed.mst("fleet", "gc")
            assert cleared.code == 0, cleared.err
            assert of(running.client, scope) == []
            assert differences(here.path, bed.newest().path) == []
        again = bed.mst("attach", bed.newest().path)
        assert again.code == 0, again.err
        until(lambda: Presence(running.client).workers(QUEUE), "the worker is still there")
