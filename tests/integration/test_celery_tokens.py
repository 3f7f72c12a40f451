"""Credentials that expire while shards run: renewed by a coordinator that is awake, waited for otherwise."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta

import pytest

from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.grants import GrantTarget
from mst.fleet.keys import FleetKey, SigningKey, load_signing_key
from mst.fleet.ledger_states import State
from mst.fleet.tokens import TokenDesk, TokenRequest, TokenSlots, refresh_key_of
from mst.testing.commandline import ended, until
from mst.testing.fleet import Bed, fleet
from mst.testing.quiz_eval import digest

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"), cases=3, secret=True)


def write(path, value, *, seconds):
    moment = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    text = json.dumps({"QUIZ_KEY": {"value": value, "expires_at": moment}})
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def entry(bed, regrade):
    book = DispatchBook(bed.fleet.client)
    head = book.head(bed.scope(regrade))
    return dict(book.entries(head))[0] if head is not None else None


def test_an_awake_coordinator_renews_them_and_the_same_attempt_goes_on_with_the_new_value(bed, tmp_path):
    bed.ready(1)
    [worker] = bed.fleet.workers.values()
    keys = tmp_path / "keys.json"
    write(keys, "first-value-of-the-quiz", seconds=24)
    bed.quiz.ask("hold-c2")
    running = bed.start("--secrets-file", keys, shards=1)
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    write(keys, "second-value-of-the-quiz", seconds=3600)
    until(lambda: "tokens_renewed" in worker.log, "the worker has the new value")
    bed.quiz.let_go("hold-c2")
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert list(dict.fromkeys(bed.quiz.lines("digests"))) == [
        digest("first-value-of-the-quiz"),
        digest("second-value-of-the-quiz"),
    ]
    assert set(bed.quiz.calls().values()) == {1}
    [machine] = bed.newest().run().grading.runner.machines
    assert len(machine.attempts) == 1
    text = "".join(path.read_text() for path in bed.newest().path.rglob("*.json"))
    assert "value-of-the-quiz" not in text


def test_a_run_that_grades_on_the_fleet_renews_them_too(bed, tmp_path):
    bed.ready(1)
    [worker] = bed.fleet.workers.values()
    before = worker.log.count("tokens_renewed")
    keys = tmp_path / "keys.json"
    write(keys, "first-value-of-the-quiz", seconds=24)
    bed.quiz.ask("hold-c2")
    celery = ("--grade-runner", "celery", "--grade-runner-option", "shards=1", "--grade-runner-option", "lease_ttl_s=2")
    running = bed.begin("run", bed.quiz.config, *celery, "--secrets-file", keys, "--output-dir", tmp_path / "results")
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    write(keys, "second-value-of-the-quiz", seconds=3600)
    until(lambda: worker.log.count("tokens_renewed") > before, "the worker has the new value")
    bed.quiz.let_go("hold-c2")
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert bed.quiz.lines("digests")[-1] == digest("second-value-of-the-quiz")
    assert set(bed.quiz.calls().values()) == {1}


def test_without_a_coordinator_the_shard_waits_and_goes_on_when_one_brings_a_new_value(bed, tmp_path):
    bed.ready(1)
    keys = tmp_path / "keys.json"
    write(keys, "first-value-of-the-quiz", seconds=20)
    bed.quiz.ask("hold-c2")
    running = bed.start("--secrets-file", keys, shards=1)
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    regrade = bed.newest()
    until(lambda: "a credential expires" in next(iter(bed.fleet.workers.values())).log or _over(keys), "it expires")
    bed.quiz.let_go("hold-c2")
    until(lambda: entry(bed, regrade).state is State.WAITING_TOKEN, "the shard waits")
    asked = sum(bed.quiz.calls().values())
    assert asked < len(bed.quiz.keys)
    write(keys, "second-value-of-the-quiz", seconds=3600)
    said = bed.mst("attach", regrade.path, "--secrets-file", keys)
    assert said.code in (0, 1), said.err
    assert set(bed.quiz.calls().values()) == {1}
    assert bed.quiz.lines("digests")[-1] == digest("second-value-of-the-quiz")
    assert regrade.run().phases.grade == "complete"


def _over(keys):
    moment = datetime.fromisoformat(json.loads(keys.read_text())["QUIZ_KEY"]["expires_at"])
    return datetime.now(UTC) > moment - timedelta(seconds=1)


def test_requests_that_are_not_from_the_dispatch_get_no_answer(bed):
    bed.fleet.client.flushall()
    key = load_signing_key(bed.fleet.keys.signing_key)
    target = GrantTarget("20260501T120000Z-abc123", "d1", "grade", "quiz")
    slots = TokenSlots(bed.fleet.client)
    desk = TokenDesk(
        slots=slots,
        target=target,
        key=key,
        forget_at=datetime.now(UTC) + timedelta(hours=1),
        read=lambda: pytest.fail("nobody may be answered"),
    )
    [recipient] = FleetKey.generate().recipients
    attempt = "1-" + "a" * 16
    for refresh_key in (b"guess", refresh_key_of(SigningKey.generate(), target.scope), refresh_key_of(key, "other")):
        slots.ask(target.scope, TokenRequest.made(refresh_key, target.scope, 0, attempt, recipient, datetime.now(UTC)))
    old = datetime.now(UTC) - timedelta(hours=1)
    slots.ask(
        target.scope, TokenRequest.made(refresh_key_of(key, target.scope), target.scope, 0, attempt, recipient, old)
    )
    bed.fleet.client.xadd(f"mst:{{{target.scope}}}:tokens", {"request": "{}"})
    assert desk.answer() == 0
    assert slots.take_answer(target.scope, attempt) is None
