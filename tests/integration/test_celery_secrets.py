"""A secret reaches the judge on the worker, and nothing else: in success and in every way to fail."""

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.parse

import pytest
import zstandard

from mst.fleet.connect import connect
from mst.fleet.presence import Presence
from mst.testing.canary import Canary, watching
from mst.testing.commandline import ended, run_mst, until
from mst.testing.fleet import GRADE_QUEUE, Bed, fleet
from mst.testing.quiz_eval import SECRET, digest

pytestmark = pytest.mark.server

VALUE = 'sk-canary "7f/+&%é\\1\nsecond-line=canary-7f'


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        running.start("--log-level", "DEBUG")
        running.start("--log-level", "DEBUG")
        yield Bed(running, tmp_path_factory.mktemp("quiz"), secret=True)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    path = tmp_path_factory.mktemp("secrets") / "judge-keys.json"
    path.write_text(json.dumps({SECRET: VALUE, "UNDECLARED": VALUE[::-1]}))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def canary():
    return Canary(VALUE)


def store(bed):
    return bed.fleet.home.parent / bed.fleet.store_uri.removeprefix("file:")


def dump(client):
    """Write what Redis holds to its file, in clear; the folder of the broker is looked through."""
    client.config_set("rdbcompression", "no")
    client.save()


def leaks(bed, canary, watch, *said):
    """Everywhere that the value was found."""
    dump(bed.fleet.client)
    logs = [worker.log for worker in bed.fleet.workers.values()]
    found = [f"process arguments: {one}" for one in watch.arguments]
    found += [f"MONITOR: {one}" for one in watch.commands]
    found += [f"Redis: {name}" for name in canary.keys(bed.fleet.client)]
    found += [f"log: {log[:200]}" for log in logs if canary.is_in(log.encode())]
    found += [f"output: {text}" for one in said for text in (one.out, one.err) if canary.is_in(text.encode())]
    found += canary.places(bed.home, store(bed), bed.fleet.home, bed.fleet.broker.config.parent)
    assert watch.sampled > 100
    assert watch.heard > 20
    return found


@pytest.mark.parametrize("how", ["success", "crash", "rejected"])
def test_the_value_reaches_the_judge_and_is_found_nowhere(bed, secrets, canary, how):
    bed.ready(2)
    bed.quiz.ask(*{"success": (), "crash": ("leak-c2", "leak-c3"), "rejected": ("reject",)}[how])
    with watching(canary, bed.fleet.broker) as watch:
        said = bed.grade("--secrets-file", str(secrets), shards=2)
        assert said.code in ({"success": (0, 1)}.get(how, (3,))), said.err
        found = leaks(bed, canary, watch, said)
    assert found == []
    if how == "rejected":
        assert bed.quiz.lines("calls") == []
        return
    assert set(bed.quiz.lines("digests")) == {digest(VALUE)}
    assert bed.quiz.lines("calls") != []
    texts = b"".join(path.read_bytes() for path in (bed.newest().path / "scores").rglob("*.json"))
    assert b"asked with [redacted]" in texts
    assert (b"the key is [redacted]" in texts) == (how == "crash")


def test_the_value_is_found_nowhere_after_kills_a_cancel_a_wipe_and_a_resume(bed, secrets, canary):
    bed.ready(2)
    bed.quiz.ask("hold-c3", "hold-c4")
    with watching(canary, bed.fleet.broker) as watch:
        running = bed.start("--secrets-file", str(secrets), shards=2)
        until(lambda: len(bed.quiz.lines("held")) >= 2, "two judges are held")
        next(iter(bed.fleet.workers.values())).kill()
        os.killpg(running.pid, signal.SIGKILL)
        first = ended(running)
        bed.fleet.client.flushall()
        regrade = bed.newest()
        attached = bed.begin("attach", regrade.path, "--secrets-file", str(secrets))
        until(lambda: bed.fleet.client.exists(f"mst:{{{bed.scope(regrade)}}}:head"), "the ledger is written again")
        told = bed.mst("cancel", regrade.path)
        assert told.code == 0, told.err
        bed.quiz.let_go("hold-c3", "hold-c4")
        second = ended(attached)
        # the wipe took the note that the worker left serves the queue; it writes it again every ten seconds
        until(lambda: Presence(bed.fleet.client).workers(GRADE_QUEUE), "the worker that is left says that it serves")
        bed.quiz.ask("leak-c5")
        third = bed.mst("grade", regrade.path, "--resume", "--runner", "celery", "--secrets-file", str(secrets))
        assert third.code in (0, 1, 3), third.err
        found = leaks(bed, canary, watch, first, told, second, third)
    assert found == []
    assert set(bed.quiz.lines("digests")) == {digest(VALUE)}


def test_a_key_that_the_judge_rejects_fails_before_any_case_and_says_so(bed, secrets):
    bed.ready(2)
    bed.quiz.ask("reject")
    said = bed.grade("--secrets-file", str(secrets), shards=2)
    assert said.code == 3
    assert bed.quiz.lines("calls") == []
    # each shard asked once: another attempt would not mend a key
    assert len(bed.quiz.lines("preflights")) == 2
    assert "was rejected" in said.err
    regrade = bed.newest()
    errors = {
        trial.grading_error
        for result in regrade.case_results()
        for trial in result.trial_results
        if trial.grading_error
    }
    assert len(errors) >= 1
    assert all("quiz" in error and "was rejected" in error for error in errors)
    bed.quiz.let_go("reject")
    again = bed.mst("grade", regrade.path, "--resume", "--runner", "celery", "--secrets-file", secrets)
    assert again.code in (0, 1), again.err
    assert set(bed.quiz.calls()) == bed.quiz.keys


def everything_sent(bed):
    return {*map(str, store(bed).rglob("*")), *bed.fleet.client.scan_iter("mst:*grade*")}


@pytest.mark.parametrize("given", ["environment", "nothing", "another name"])
def test_a_key_that_is_not_in_the_file_is_refused_before_anything_is_sent(bed, tmp_path, given):
    bed.ready(2)
    before, regrades = everything_sent(bed), len(list(bed.source.path.parent.iterdir()))
    options = []
    if given == "another name":
        (tmp_path / "keys").write_text("OTHER=value\n")
        options = ["--secrets-file", str(tmp_path / "keys")]
    said = bed.grade(*options, env={SECRET: VALUE} if given == "environment" else {})
    assert said.code == 2
    assert len(said.error_lines) == 1
    assert SECRET in said.err
    assert ("keys" if options else "--secrets-file") in said.err
    assert ("set in the environment here" in said.err) == (given == "environment")
    assert everything_sent(bed) == before
    assert len(list(bed.source.path.parent.iterdir())) == regrades


def test_following_needs_no_key_and_sending_the_rest_does(bed, secrets):
    bed.ready(2)
    bed.quiz.ask("hold")
    running = bed.start("--secrets-file", str(secrets), shards=2)
    until(lambda: len(bed.quiz.lines("held")) == 2, "two judges are held")
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    regrade = bed.newest()
    attached = bed.begin("attach", regrade.path)
    bed.quiz.let_go("hold")
    said = ended(attached)
    assert said.code in (0, 1), said.err
    assert set(bed.quiz.calls().values()) == {1}


def test_an_embedded_fleet_that_died_needs_the_key_again(bed, secrets):
    bed.quiz.forget()
    bed.quiz.ask("hold-c3", "hold-c4")
    arguments = ["grade", bed.source.path, "--runner", "celery", "--runner-option", "shards=2"]
    bare = {"MST_BROKER_URL": "", "MST_STORE": "", "MST_SIGNING_KEY_FILE": ""}
    running = bed.begin(*arguments, "--secrets-file", secrets, env=bare)
    until(lambda: len(bed.quiz.lines("held")) == 2, "two judges are held")
    finished = set(bed.quiz.lines("answered"))
    own = f"file:{bed.home / '.mst-results' / '.fleet'}"
    until(lambda: finished <= bed.stored(bed.newest(), store_uri=own), "what was answered is durable")
    os.killpg(running.pid, signal.SIGKILL)
    ended(running)
    bed.quiz.let_go("hold-c3", "hold-c4")
    regrade = bed.newest()
    said = bed.mst("attach", regrade.path, env=bare)
    assert said.code == 2, said.err
    assert SECRET in said.err
    assert "--secrets-file" in said.err
    said = bed.mst("attach", regrade.path, "--secrets-file", secrets, env=bare)
    assert said.code in (0, 1), said.err
    calls = bed.quiz.calls()
    assert set(calls) == bed.quiz.keys
    assert {key for key in finished if calls[key] > 1} == set()
    assert regrade.run().grading.runner.dispatches == ["d1", "d2"]


PLANTED = {
    "plain": VALUE,
    "JSON": json.dumps({"key": VALUE}),
    "base64 in a longer text": base64.b64encode(b"user:" + VALUE.encode()).decode(),
    "URL": urllib.parse.quote(VALUE, safe=""),
    "lines": "\n".join(VALUE[start : start + 9] for start in range(0, len(VALUE), 9)),
}


@pytest.mark.parametrize("form", PLANTED)
def test_the_scan_finds_a_planted_leak(tmp_path, canary, form):
    (tmp_path / "plain").write_text(PLANTED[form])
    (tmp_path / "packed").write_bytes(zstandard.compress(PLANTED[form].encode()))
    (tmp_path / "clean").write_text(VALUE[:-1] + "?")
    assert canary.places(tmp_path) == ["packed", "plain"]


def test_the_scan_finds_leaks_in_redis_and_process_arguments(bed):
    # a value of its own: other tests may be looking at all processes just now
    value = VALUE.replace("canary", "planted")
    canary, client = Canary(value), connect(bed.fleet.broker.url)
    with watching(canary, bed.fleet.broker) as watch:
        client.hset("planted", "key", f"x{value}")
        message = {"body": base64.b64encode(json.dumps([{"key": value}]).encode()).decode()}
        client.rpush("planted-queue", json.dumps(message))
        assert sorted(canary.keys(client)) == ["planted", "planted-queue"]
        dump(client)
        assert "valkey/dump.rdb" in canary.places(bed.fleet.broker.config.parent.parent)
        with subprocess.Popen([sys.executable, "-c", "input()", value], stdin=subprocess.PIPE) as process:
            until(lambda: watch.arguments, "the argument is seen")
            process.communicate(b"\n")
        until(lambda: watch.commands, "the command is heard")
    client.delete("planted", "planted-queue")
    dump(client)
    client.close()


def test_without_a_fleet_the_value_stays_out_of_the_run_folder_too(bed, secrets, canary):
    bed.quiz.forget()
    bed.quiz.ask("leak-c2")
    options = ["--runner", "process", "--secrets-file", secrets]
    with watching(canary) as watch:
        said = run_mst("grade", bed.source.path, *options, cwd=bed.home)
    assert said.code == 3, said.err
    assert watch.arguments == []
    assert not canary.is_in((said.out + said.err).encode())
    assert canary.places(bed.home) == []
