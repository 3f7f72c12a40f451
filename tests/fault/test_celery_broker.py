"""What goes wrong between coordinator, broker and workers: lost connections, lost data, messages that lie."""

import base64
import json
import os
import signal
import threading
from datetime import UTC, datetime, timedelta

import pytest

from mst.fleet.keys import SigningKey, load_signing_key
from mst.fleet.signing import sign
from mst.model.fleet import Envelope
from mst.testing.commandline import ended, until
from mst.testing.equality import differences
from mst.testing.fleet import GRADE_QUEUE, Bed, fleet

pytestmark = pytest.mark.server

QUEUE = f"mst:{GRADE_QUEUE}"


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"))


@pytest.fixture(scope="module")
def here(bed):
    return bed.here()


def held(bed, count):
    until(lambda: len(bed.quiz.lines("held")) >= count, f"{count} judges are held")


def begin_held(bed):
    bed.ready(2)
    bed.quiz.ask("hold-c3", "hold-c4")
    running = bed.start(shards=2)
    held(bed, 2)
    return running


def end_well(bed, here, running):
    bed.quiz.let_go("hold-c3", "hold-c4")
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert differences(here.path, bed.newest().path) == []
    assert set(bed.quiz.calls()) == bed.quiz.keys
    assert set(bed.quiz.calls().values()) == {1}


def test_a_broker_that_was_killed_and_came_back_changes_nothing(bed, here):
    running = begin_held(bed)
    bed.fleet.broker.kill()
    bed.fleet.broker.start()
    end_well(bed, here, running)


def test_a_broker_that_is_away_for_longer_than_a_lease_changes_nothing(bed, here):
    running = begin_held(bed)
    bed.fleet.broker.kill()
    bed.quiz.let_go("hold-c3", "hold-c4")
    until(lambda: len(bed.quiz.lines("answered")) == len(bed.quiz.keys), "all is graded without a broker")
    threading.Event().wait(3.0)
    bed.fleet.broker.start()
    end_well(bed, here, running)


def test_a_broker_that_lost_everything_is_written_again(bed, here):
    running = begin_held(bed)
    bed.fleet.client.flushall()
    scope = bed.scope(bed.newest())
    until(lambda: bed.fleet.client.exists(f"mst:dispatch:{scope}") or scope in " ".join(bed.fleet.client.keys("*")),
          "the dispatch is written again")  # fmt: skip
    end_well(bed, here, running)


def test_a_dispatch_that_was_lost_while_nobody_watched_is_written_again_by_attach(bed, here):
    running = begin_held(bed)
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    finished = bed.durable()
    for worker in bed.fleet.workers.values():
        worker.kill()
    bed.fleet.client.flushall()
    bed.fleet.start()
    bed.quiz.let_go("hold-c3", "hold-c4")
    regrade = bed.newest()
    said = bed.mst("attach", regrade.path)
    assert said.code in (0, 1), said.err
    assert differences(here.path, regrade.path) == []
    assert {key for key in finished if bed.quiz.calls()[key] > 1} == set()
    assert regrade.run().grading.runner.dispatches == ["d1"]


def test_killed_connections_change_nothing(bed, here):
    running = begin_held(bed)
    pause = threading.Event()
    for _ in range(10):
        bed.fleet.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        pause.wait(0.1)
    end_well(bed, here, running)


def waiting(bed, shards=2):
    """Begin without a worker; returns the coordinator and the messages that wait."""
    bed.ready(0)
    running = bed.start("--runner-option", "wait=true", shards=shards)
    until(lambda: bed.fleet.client.llen(QUEUE) == shards, "the messages wait")
    return running, bed.fleet.client.lrange(QUEUE, 0, -1)


def test_duplicate_and_replayed_messages_grade_nothing_twice(bed, here):
    running, messages = waiting(bed)
    bed.fleet.client.rpush(QUEUE, *messages, *messages)
    bed.fleet.start()
    bed.fleet.start()
    end_well(bed, here, running)
    bed.fleet.client.rpush(QUEUE, *messages)
    logs = lambda: "".join(worker.log for worker in bed.fleet.workers.values())  # noqa: E731 - read again each time
    # two duplicates of each shard met a lease or a manifest, the replay meets its end
    until(lambda: logs().count("shard_over") + logs().count("shard_not_granted") >= 6, "all were looked at and left")
    assert set(bed.quiz.calls().values()) == {1}


class Forger:
    """Makes messages from real ones, as anyone who may write to Redis could."""

    def __init__(self, bed, message):
        self.bed = bed
        self.outer = json.loads(message)
        self.args, self.kwargs, self.embed = json.loads(base64.b64decode(self.outer["body"]))
        self.payload = self.args[0]["envelope"]["payload"]
        self.own = load_signing_key(bed.fleet.keys.signing_key)

    def send(self, envelope, **headers):
        message = {**self.args[0], "envelope": envelope}
        body = base64.b64encode(json.dumps([[message], self.kwargs, self.embed]).encode()).decode()
        self.bed.fleet.client.rpush(
            QUEUE, json.dumps({**self.outer, "body": body, "headers": {**self.outer["headers"], **headers}})
        )

    def signed(self, key=None, **change):
        key = key or self.own
        envelope = Envelope.model_validate({**self.payload, "keyId": key.key_id, **change})
        return sign(envelope, key).to_dict()

    def tampered(self, **change):
        real = self.args[0]["envelope"]
        return {**real, "payload": {**real["payload"], **change}}


def test_messages_that_lie_are_refused_and_nothing_counts(bed, here):
    running, messages = waiting(bed)
    forger = Forger(bed, messages[0])
    bed.fleet.client.delete(QUEUE)
    stranger = SigningKey.generate()
    past = (datetime.now(UTC) - timedelta(minutes=10)).isoformat()
    forger.send({**forger.args[0]["envelope"], "signature": "A" * 86 + "=="})
    forger.send({**forger.args[0]["envelope"], "signature": ""})
    forger.send(forger.tampered(bundleUri=f"{bed.fleet.store_uri}/elsewhere"))
    forger.send(forger.tampered(shard=7))
    forger.send(forger.signed(stranger))
    forger.send(forger.signed(queue="mst.collect.0.1.0"))
    forger.send(forger.signed(deadline=past))
    forger.send(forger.signed(resultsUri=f"{bed.fleet.store_uri}/quiz/dispatches/other/d1/shards/0"))
    forger.send(forger.signed(mst="0.0.9"))
    forger.send(forger.args[0]["envelope"], task="os.system")
    worker = bed.fleet.start()
    until(lambda: worker.log.count("message_refused") == 10, "ten are refused")
    for reason in (
        "bad signature",
        "not a trusted signer",
        "does not serve",
        "deadline",
        "must lie under",
        "0.0.9",
        "headers.task",
    ):
        assert reason in worker.log
    assert worker.log.count("bad signature") == 4
    assert bed.quiz.lines("calls") == []
    # the janitor sends the real ones again, and the worker still serves
    end_well(bed, here, running)


def flip(path, at=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def test_a_bundle_with_a_flipped_byte_fails_its_shard_alone(bed, here):
    running, messages = waiting(bed)
    first = Forger(bed, messages[0]).payload
    bundle = bed.dispatch_folder(bed.newest()) / "bundles" / first["bundleSha256"]
    flip(bundle)
    bed.fleet.start()
    said = ended(running)
    assert said.code == 3, said.err
    assert "the bundle's bytes are not those that the envelope names" in said.err
    assert 0 < len(bed.quiz.calls()) < len(bed.quiz.keys)
    regrade = bed.newest()
    errors = [trial.grading_error for case in regrade.case_results() for trial in case.trial_results]
    assert any(f"shard {first['shard']} " in error for error in errors if error)
    again = bed.mst("grade", regrade.path, "--resume", "--runner", "celery")
    assert again.code in (0, 1), again.err
    assert set(bed.quiz.calls().values()) == {1}
    assert differences(here.path, regrade.path) == []


def place_of(bed, regrade, variant, case):
    """The object that holds a unit, and where in it the unit's grading begins; None while there is none."""
    begin = b'"trialGrading":{"key":{"variant":"%s","caseId":"%s",' % (variant.encode(), case.encode())
    for kind in ("units", "packs"):
        for path in bed.dispatch_folder(regrade).glob(f"shards/*/attempts/*/{kind}/*"):
            at = path.read_bytes().find(begin)
            if at >= 0:
                return path, at + 5
    return None


def test_a_unit_that_was_altered_is_not_taken_over(bed, here):
    bed.ready(1)
    bed.quiz.ask("hold-c4")
    running = bed.start(shards=2)
    held(bed, 1)
    regrade = bed.newest()
    bed.durable()
    path, at = until(lambda: place_of(bed, regrade, "a", "c1"), "a unit is in the store")
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[:at] + data[at:].replace(b'"score":0.4', b'"score":0.9', 1))
    assert path.read_bytes() != data
    bed.fleet.workers.popitem()[1].kill()
    bed.fleet.start()
    bed.quiz.let_go("hold-c4")
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert differences(here.path, regrade.path) == []
    twice = {key for key, times in bed.quiz.calls().items() if times > 1}
    assert "A c1" in twice
    assert twice <= {"A c1", "A c4", "B c4"}


def test_a_unit_that_was_altered_after_its_commit_is_named_and_graded_again(bed, here):
    bed.ready(2)
    bed.quiz.ask("hold-c4")
    running = bed.start(shards=2)
    held(bed, 1)
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    bed.quiz.let_go("hold-c4")
    regrade = bed.newest()
    until(lambda: len(bed.manifests(regrade)) == 2, "both shards are committed")
    path, at = place_of(bed, regrade, "b", "c2")
    flip(path, at)
    said = bed.mst("attach", regrade.path)
    assert said.code == 3, said.err
    assert "is corrupt" in said.err
    again = bed.mst("grade", regrade.path, "--resume", "--runner", "celery")
    assert again.code in (0, 1), again.err
    assert {key for key, times in bed.quiz.calls().items() if times > 1} == {"B c2"}
    assert differences(here.path, regrade.path) == []
