"""Wrong set-ups of a fleet: one clear line each with what to do, the right exit code, and nothing half-written."""

import os
import shutil
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from mst.fleet.connect import without_password
from mst.fleet.dispatch import envelope_of
from mst.fleet.keys import keygen, load_signing_key
from mst.fleet.presence import Presence
from mst.fleet.refusals import FIXES
from mst.fleet.room import Room
from mst.fleet.scale_rules import ScaleRules
from mst.fleet.worker import _Here
from mst.store import open_store
from mst.store.find import list_runs
from mst.testing.commandline import call_mst, until
from mst.testing.fleet import GRADE_QUEUE, Bed, fleet
from mst.testing.quiz_eval import Quiz
from mst.testing.servers import free_ports

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"))


@pytest.fixture
def mst(bed, monkeypatch, capsys):
    """Runs a command here, as a coordinator with some settings changed; None takes one away."""

    monkeypatch.setattr("mst.runners.celery.SERVED_WITHIN_S", 0)

    def run(*arguments, **settings):
        monkeypatch.chdir(bed.home)
        for name, value in {**bed.fleet.coordinator, **settings}.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, str(value))
        return call_mst(capsys, *arguments)

    return run


def state(bed):
    """Everything that a coordinator could have written."""
    folder = bed.dispatch_folder(bed.source).parents[1]
    runs = bed.source.path.parent
    return (
        sorted(path.name for path in runs.iterdir()),
        sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [],
        sorted(name for name in bed.fleet.client.scan_iter("*") if "dispatch" in name or ".grade." in name),
    )


def spoiled_keys(bed, tmp_path):
    folder = tmp_path / "keys"
    shutil.copytree(bed.fleet.keys.signing_key.parent, folder)
    return folder


SETUPS = {
    "no such broker": ({"MST_BROKER_URL": "redis://:secretpass@127.0.0.1:1/0"}, [], 4, "127.0.0.1:1"),
    "no such host": ({"MST_BROKER_URL": "redis://:secretpass@nowhere.invalid/0"}, [], 4, "nowhere.invalid"),
    "a wrong password": ({"MST_BROKER_URL": "WRONG"}, [], 4, "refused the password"),
    "not a broker's URL": ({"MST_BROKER_URL": "http://here"}, [], 2, "redis://"),
    "no store": ({"MST_STORE": None}, [], 2, "MST_STORE"),
    "a store of no kind": ({"MST_STORE": "ftp://here/x"}, [], 2, "ftp"),
    "a store that is a path": ({"MST_STORE": "/tmp/x"}, [], 2, "file:"),
    "a store below a file": ({"MST_STORE": "BELOW_A_FILE"}, [], 4, "store"),
    "no signing key": ({"MST_SIGNING_KEY_FILE": None}, [], 2, "mst fleet keygen"),
    "a signing key that is not there": ({"MST_SIGNING_KEY_FILE": "/nowhere/s.key"}, [], 2, "/nowhere/s.key"),
    "a signing key that is none": ({"MST_SIGNING_KEY_FILE": "NO_KEY"}, [], 2, "no.key"),
    "no recipients": ({"MST_SIGNING_KEY_FILE": "NO_RECIPIENTS"}, [], 2, "fleet.pub"),
    "no worker": ({}, [], 2, "no worker serves the queue"),
    "no worker of the class": ({}, ["class=gpu"], 2, "mst.grade.gpu"),
    "no worker of the image": ({}, [f"image=sha256:{'cd' * 32}"], 2, f"sha256:{'cd' * 32}, with MST_IMAGE_DIGEST set"),
    "an image by a tag": ({}, ["image=latest"], 2, "by its digest"),
    "no shards": ({}, ["shards=0"], 2, "shards"),
    "too many shards": ({}, ["shards=10001"], 2, "shards"),
    "an unknown option": ({}, ["shard=3"], 2, "the celery runner has no such option; it has shards"),
    "a password in the arguments": ({}, ["broker=redis://:secretpass@here/0"], 2, "MST_BROKER_URL"),
    "a key in the arguments": ({}, ["store=s3://user:secretpass@bucket/x"], 2, "MST_STORE"),
}  # fmt: skip


@pytest.mark.parametrize("name", SETUPS)
def test_a_wrong_set_up_is_one_line_and_leaves_nothing(bed, mst, tmp_path, name):
    settings, options, code, expected = SETUPS[name]
    bed.ready(0)
    keys = spoiled_keys(bed, tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "no.key").write_text("{}")
    (keys / "fleet.pub").unlink()
    values = {
        "WRONG": bed.fleet.broker.url.replace("://:", "://:wrong"),
        "BELOW_A_FILE": f"file:{tmp_path / 'file' / 'store'}",
        "NO_KEY": tmp_path / "no.key",
        "NO_RECIPIENTS": keys / "signing.key",
    }
    given = {key: values.get(value, value) for key, value in settings.items()}
    before = state(bed)
    pairs = [part for option in options for part in ("--runner-option", option)]
    said = mst("grade", bed.source.path, "--runner", "celery", *pairs, **given)
    assert said.code == code, said.err
    assert len(said.error_lines) == 1, said.err
    assert expected in said.err
    assert "Traceback" not in said.err
    assert "secretpass" not in said.err + said.out
    assert state(bed) == before


def test_a_refused_detach_leaves_no_run_in_the_store(bed, mst):
    """Manifests are never removed: a run that nobody works on would stand in the store's list for ever."""
    bed.ready(0)
    before = list(list_runs(open_store(bed.fleet.store_uri)))
    said = mst("grade", bed.source.path, "--runner", "celery", "--detach")
    assert (said.code, "no worker serves the queue" in said.err) == (2, True)
    assert list(list_runs(open_store(bed.fleet.store_uri))) == before


def test_a_broker_that_may_forget_keys_is_refused(bed, mst):
    before = state(bed)
    bed.fleet.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        said = mst("grade", bed.source.path, "--runner", "celery")
    finally:
        bed.fleet.client.config_set("maxmemory-policy", "noeviction")
    assert said.code == 4
    assert "noeviction" in said.err
    assert len(said.error_lines) == 1
    assert state(bed) == before


@pytest.mark.parametrize("spoil", ["cut off", "changed", "gone"])
def test_a_stored_run_that_is_not_what_was_collected_is_not_sent(bed, mst, tmp_path, spoil):
    source = shutil.copytree(bed.source.path, tmp_path / "results" / "quiz" / "runs" / bed.source.run_id)
    record = next((source / "transcripts").rglob("*.json"))
    match spoil:
        case "cut off":
            record.write_bytes(record.read_bytes()[:-40])
        case "changed":
            (source / "run.json").write_text((source / "run.json").read_text().replace('"runId"', '"runIt"', 1))
        case "gone":
            shutil.rmtree(source / "transcripts")
    said = mst("grade", source, "--runner", "celery")
    assert said.code == (2 if spoil == "gone" else 4), said.err
    assert len(said.error_lines) == 1
    assert {"cut off": record.name, "changed": "run.json", "gone": "nothing was collected"}[spoil] in said.err
    assert [path.name for path in source.parent.iterdir()] == [source.name]


@pytest.mark.parametrize(
    ("settings", "arguments", "expected"),
    [
        ({}, [], "--trusted"),
        ({"MST_BROKER_URL": None}, ["--trusted"], "MST_BROKER_URL is not set"),
        ({"MST_STORE": None}, ["--trusted"], "MST_STORE is not set"),
        ({"MST_FLEET_KEY_FILE": None}, ["--trusted"], "MST_FLEET_KEY_FILE is not set"),
        ({"MST_TRUSTED_SIGNERS_FILE": None}, ["--trusted"], "MST_TRUSTED_SIGNERS_FILE is not set"),
        ({"MST_FLEET_KEY_FILE": "/nowhere/fleet.key"}, ["--trusted"], "/nowhere/fleet.key"),
        ({"MST_TRUSTED_SIGNERS_FILE": "/nowhere/signers.json"}, ["--trusted"], "/nowhere/signers.json"),
    ],
)
def test_a_worker_without_what_it_needs_does_not_start(bed, mst, monkeypatch, settings, arguments, expected):
    keys = bed.fleet.keys
    full = {"MST_FLEET_KEY_FILE": keys.fleet_key, "MST_TRUSTED_SIGNERS_FILE": keys.signers}
    monkeypatch.setattr("mst.fleet.worker._serve", lambda *_: pytest.fail("it must not serve"))
    said = mst("worker", *arguments, **{**full, **settings})
    assert said.code == 2
    assert len(said.error_lines) == 1
    assert expected in said.err


def test_a_command_looks_a_while_for_workers_of_which_a_wiped_broker_knows_nothing_yet(bed, mst, monkeypatch):
    bed.ready(1)
    seen, look = [], Presence.workers

    def workers(presence, queue):
        seen.append(queue)
        return look(presence, queue) if len(seen) > 1 else []

    monkeypatch.setattr(Presence, "workers", workers)
    monkeypatch.setattr("mst.runners.celery.SERVED_WITHIN_S", 60)
    said = mst("grade", bed.source.path, "--runner", "celery", "--runner-option", "shards=1")
    assert said.code in (0, 1), said.err
    assert f"no worker says yet that it serves the queue {GRADE_QUEUE}; looking for 60 s" in said.err


def test_a_queue_without_workers_is_not_refused_while_a_scale_rule_serves_it(bed, mst):
    bed.ready(0)
    ScaleRules(bed.fleet.client).announce("pool-a", [GRADE_QUEUE], ttl_s=60)
    said = bed.grade("--detach")
    assert said.code == 0, said.err
    assert "the pool pool-a starts one for it" in said.err
    assert bed.mst("cancel", bed.newest().run_id).code == 0
    bed.mst("attach", bed.newest().run_id)
    bed.fleet.client.delete(f"mst:scalers:{GRADE_QUEUE}")


def test_a_worker_says_again_that_it_is_there_as_soon_as_the_broker_does_not_know_it(bed, monkeypatch, tmp_path):
    bed.ready(0)
    monkeypatch.setattr("mst.fleet.worker.LOOK_EVERY_S", 0.05)
    monkeypatch.setattr("mst.fleet.worker.PRESENT_S", 3600.0)
    presence = Presence(bed.fleet.client)
    here = _Here(presence, "lively", ["one", "two"], Room(tmp_path, 0))
    here.start()
    try:
        for _ in range(2):
            bed.fleet.client.flushall()
            until(lambda: presence.workers("one") == presence.workers("two") == ["lively"], "it is known again")
    finally:
        here.join()
    assert presence.workers("one") == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"MST_BROKER_URL": "redis://127.0.0.1:1/0"}, "the broker does not answer"),
        ({"MST_STORE": None}, "set MST_STORE"),
        ({}, "no worker serves the queue"),
    ],
)
def test_collecting_with_a_wrong_set_up_leaves_no_run(bed, mst, settings, expected):
    before = state(bed)
    said = mst("run", bed.quiz.config, "--runner", "celery", **settings)
    assert said.code == (4 if "MST_BROKER_URL" in settings else 2), said.err
    # what the run would take is said before anything is begun; the fault is one line after it
    [forecast, fault] = said.error_lines
    assert forecast.startswith("mst: 12 trials, ")
    assert fault.startswith("mst: ")
    assert expected in fault
    assert state(bed) == before


def test_a_corrupt_manifest_is_named_and_another_is_made_when_it_is_taken_away(bed, mst):
    bed.ready(1)
    bed.quiz.ask("hold")
    running = bed.start(shards=1)
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    running.kill()
    running.communicate()
    bed.quiz.let_go("hold")
    regrade = bed.newest()
    [manifest] = until(lambda: bed.manifests(regrade), "the shard is committed")
    manifest.chmod(0o644)
    manifest.write_bytes(manifest.read_bytes()[:-30])
    said = bed.mst("attach", regrade.path)
    assert said.code == 4, said.err
    [line] = [line for line in said.error_lines if line.startswith("mst: ")]
    assert str(manifest.relative_to(bed.dispatch_folder(regrade))) in line
    assert "delete it and attach again" in line
    manifest.unlink()
    said = bed.mst("attach", regrade.path)
    assert said.code in (0, 1), said.err
    assert set(bed.quiz.calls().values()) == {1}


def signed_by(bed, folder):
    """Settings of a coordinator whose key no worker lists."""
    other = keygen(folder, evals=["*"], queues=["*"], now=datetime.now(UTC))
    return other, {"MST_SIGNING_KEY_FILE": str(other.signing_key)}


def test_a_signer_that_workers_do_not_know_ends_the_command_and_says_what_to_do(bed, tmp_path):
    bed.ready(2)
    other, env = signed_by(bed, tmp_path / "other")
    said = bed.grade(shards=1, env=env)
    assert said.code == 5, said.err
    last = said.error_lines[-1]
    key_id = load_signing_key(other.signing_key).key_id
    queue = GRADE_QUEUE
    assert last.startswith(f"mst: every worker of the queue {queue} refuses this work. worker w")
    assert f"signed with key {key_id}, which is not a trusted signer here (and 1 more alike)" in last
    assert "MST_TRUSTED_SIGNERS_FILE" in last
    assert last.endswith(f"then: mst attach {bed.newest().run_id}")
    assert bed.quiz.lines("calls") == []
    assert not bed.fleet.is_at_work()


@contextmanager
def worker_of_its_own(bed, *options, **env):
    """A worker with other settings than the fleet's; it's gone with the block, so that no later test is given it."""
    worker = bed.fleet.start(*options, env=env)
    try:
        yield worker
    finally:
        bed.fleet.dismiss(worker)


def test_what_one_worker_refuses_another_takes(bed, tmp_path):
    bed.ready(1)
    other, env = signed_by(bed, tmp_path / "other")
    with worker_of_its_own(bed, MST_TRUSTED_SIGNERS_FILE=str(other.signers)):
        said = bed.grade(shards=2, env=env)
    assert said.code in (0, 1), said.err
    assert set(bed.quiz.calls()) == bed.quiz.keys
    assert set(bed.quiz.calls().values()) == {1}


def test_workers_of_another_store_end_the_command_and_say_so(bed, tmp_path):
    bed.ready(0)
    with worker_of_its_own(bed, MST_STORE=f"file:{tmp_path / 'elsewhere'}"):
        said = bed.grade(shards=2)
    assert said.code == 5, said.err
    assert "must lie under" in said.error_lines[-1]
    assert "give workers and coordinator the same MST_STORE" in said.error_lines[-1]


def refused_messages(port):
    """How many messages a worker counted as refused."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("mst_messages_refused_total"))


def days_old(*given):
    """The envelope of a coordinator whose clock is days behind, or of a message that was kept for days."""
    envelope = envelope_of(*given)
    return envelope.model_copy(update={"deadline": envelope.deadline - timedelta(days=3)})


UNFIT = {
    "version": ({"mst.fleet.dispatch.__version__": "0.0.1"}, "the coordinator has mst 0.0.1, this worker has"),
    "deadline": (
        {"mst.fleet.dispatch.envelope_of": days_old, "mst.runners.celery.envelope_of": days_old},
        "passed at",
    ),
}


def test_envelopes_of_another_version_or_past_their_deadline_are_refused_logged_counted_and_told(bed, mst, monkeypatch):
    bed.ready(0)
    bed.quiz.forget()
    [port] = free_ports(1)
    with worker_of_its_own(bed, "--metrics-port", str(port)) as worker:
        for kind, (changes, reason) in UNFIT.items():
            before = refused_messages(port)
            with monkeypatch.context() as patched:
                for name, value in changes.items():
                    patched.setattr(name, value)
                said = mst("grade", bed.source.path, "--runner", "celery", "--runner-option", "shards=1")
            assert said.code == 5, said.err
            assert reason in said.error_lines[-1]
            assert FIXES[kind] in said.error_lines[-1]
            assert refused_messages(port) > before
            assert any("message_refused" in line and reason in line for line in worker.log.splitlines())
    assert bed.quiz.lines("calls") == []
    assert not bed.fleet.is_at_work()


def test_the_broker_that_is_recorded_has_no_password_and_the_store_is_found_from_any_folder(bed):
    bed.ready(1)
    relative = os.path.relpath(bed.fleet.store_uri.removeprefix("file:"), bed.home)
    assert bed.grade(shards=1, env={"MST_STORE": f"file:{relative}"}).code in (0, 1)
    assert bed.newest().run().grading.runner.options["store"] == bed.fleet.store_uri
    recorded = bed.newest().run().grading.runner.options
    assert recorded["broker"] == without_password(bed.fleet.broker.url)
    password = bed.fleet.broker.url.partition("://:")[2].partition("@")[0]
    assert password not in bed.newest().path.joinpath("run.json").read_text()


def test_an_embedded_fleet_that_cannot_write_its_store_says_so(tmp_path, capsys, monkeypatch):
    quiz = Quiz(tmp_path / "quiz")
    monkeypatch.chdir(quiz.home)
    for name in ("MST_BROKER_URL", "MST_STORE", "MST_SIGNING_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert call_mst(capsys, "run", quiz.config, "--no-grade").code == 0
    (quiz.home / ".mst-results" / ".fleet").write_text("a file where a folder should be")
    said = call_mst(capsys, "grade", _only_run(quiz), "--runner", "celery")
    assert said.code == 4, said.err
    assert len(said.error_lines) == 1
    assert ".fleet" in said.err
    assert len(list(_only_run(quiz).parent.iterdir())) == 1


def _only_run(quiz):
    return next((quiz.home / ".mst-results" / "quiz" / "runs").iterdir())
