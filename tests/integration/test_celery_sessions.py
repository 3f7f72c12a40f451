"""Workers without any right at the store grade with the credentials of their shard alone, sealed by the coordinator."""

from datetime import UTC, datetime

import pytest

from mst.errors import StoreDenied
from mst.fleet.grants import GrantSlots, GrantTarget, open_grant
from mst.fleet.keys import load_fleet_key
from mst.fleet.ledger_keys import DEFAULT_PREFIX
from mst.fleet.signing import Verifier
from mst.model.fleet import TrustedSigners
from mst.store.layout import RunKeys
from mst.store.uri import open_store
from mst.testing.commandline import ended, until
from mst.testing.equality import differences
from mst.testing.fleet import alive, s3_bed
from mst.testing.servers import SESSION_ROLE

pytestmark = pytest.mark.server
NOBODY = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with s3_bed(tmp_path_factory.mktemp) as bed:
        yield bed


def sessions_of(bed, shard, regrade):
    """What is sealed for one shard now, opened as a worker would."""
    target = GrantTarget(regrade.run_id, "d1", "grade", "quiz", shard)
    verifier = Verifier(TrustedSigners.from_json(bed.fleet.keys.signers.read_bytes(), "signers"))
    found = GrantSlots(bed.fleet.client, DEFAULT_PREFIX).newest(target, verifier)
    return open_grant(*found, load_fleet_key(bed.fleet.keys.fleet_key), now=datetime.now(UTC))


def refused(call):
    with pytest.raises(StoreDenied):
        call()


def test_workers_without_rights_grade_with_what_their_shard_was_given(bed):
    here = bed.here()
    bed.ready(0)
    for _ in range(2):
        bed.fleet.start(env=NOBODY)
    bed.quiz.ask("hold-c3", "hold-c4")
    sts = {"AWS_ENDPOINT_URL_STS": bed.server.endpoint_url}
    running = bed.start("--runner-option", f"store_role={SESSION_ROLE}", shards=2, env=sts)
    until(lambda: len(bed.quiz.lines("held")) == 2, "two judges are held")
    regrade = bed.newest()
    keys = RunKeys("quiz", regrade.run_id).dispatch("d1")
    opened = sessions_of(bed, 0, regrade)
    assert 0 < (opened.expires_at - datetime.now(UTC)).total_seconds() <= 3600
    store = open_store(bed.fleet.store_uri, environ=opened.values, patience_s=0)
    store.put(keys.shard(0).unit("9-" + "0" * 16, "mine"), b"unit")
    refused(lambda: store.put(keys.shard(1).unit("9-" + "0" * 16, "theirs"), b"unit"))
    refused(lambda: store.put_if_absent(keys.closed, b"{}"))
    refused(lambda: store.get(RunKeys("quiz", regrade.run_id).dispatch("d2").record))
    refused(lambda: store.put(RunKeys("quiz", regrade.run_id).manifest(1), b"{}"))
    secret = opened.values["AWS_SECRET_ACCESS_KEY"]
    assert secret not in everything_in(bed.fleet.client)
    victim = next(iter(bed.fleet.workers.values()))
    family = victim.family()
    bed.durable()
    victim.kill()
    until(lambda: not any(alive(one) for one in family), "its children notice and end")
    bed.quiz.let_go("hold-c3", "hold-c4")
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert differences(here.path, regrade.path) == []
    assert sum(bed.quiz.calls().values()) == len(bed.quiz.keys) + 1
    logs = "".join(worker.log for worker in bed.fleet.workers.values())
    assert secret not in logs + said.err + said.out


def everything_in(client):
    found = []
    for name in client.scan_iter("*"):
        kind = client.type(name)
        if kind == "hash":
            found.append(str(client.hgetall(name)))
        elif kind == "string":
            found.append(str(client.get(name)))
        elif kind == "list":
            found.append(str(client.lrange(name, 0, -1)))
    return " ".join(found)


def test_a_role_that_may_not_be_taken_on_is_said_before_anything_is_sent(bed):
    bed.ready(1)
    sts = {"AWS_ENDPOINT_URL_STS": bed.server.endpoint_url}
    said = bed.grade("--runner-option", "store_role=arn:aws:iam::role/other", env=sts)
    assert said.code not in (0, 1)
    assert "cannot take on arn:aws:iam::role/other" in said.err
    assert "Traceback" not in said.err
    assert bed.quiz.lines("calls") == []
