"""Sending a grading out and leaving it; going on from another terminal and from a machine that has only the store."""

import json

import pytest

from mst import __version__
from mst.fleet.connect import without_password
from mst.runs.folder import RunFolder
from mst.testing.commandline import ended, run_mst, start_mst, until
from mst.testing.equality import differences
from mst.testing.fleet import GRADE_QUEUE, Bed, fleet, unpush
from mst.testing.quiz_eval import digest

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"))


@pytest.fixture(scope="module")
def here(bed):
    return bed.here()


def detach(bed, *options, shards=2):
    said = bed.grade("--detach", *options, shards=shards)
    assert said.code == 0, said.err
    return bed.newest(), said


def elsewhere(bed, home, *arguments, env=None):
    """A command on another machine: another folder, the fleet's settings, nothing else."""
    home.mkdir(exist_ok=True)
    return start_mst(*arguments, cwd=home, env={**bed.fleet.coordinator, **(env or {})})


def fetched(home, run_id):
    return RunFolder(home / ".mst-results" / "quiz" / "runs" / run_id)


def test_it_returns_while_the_shards_run_and_another_terminal_goes_on(bed, here):
    bed.ready(2)
    bed.quiz.ask("hold")
    regrade, said = detach(bed)
    assert said.out == f"{regrade.run_id}: d1 sent, 2 shards; they are graded without this command\n"
    assert f"mst attach {regrade.run_id}" in said.err
    assert regrade.run().phases.grade == "partial"
    attached = bed.begin("attach", regrade.run_id)
    bed.quiz.let_go("hold")
    over = ended(attached)
    assert over.code in (0, 1), over.err
    assert differences(here.path, regrade.path) == []
    assert regrade.run().grading.runner.dispatches == ["d1"]
    assert set(bed.quiz.calls().values()) == {1}


def test_a_machine_with_only_the_store_goes_on_and_its_result_is_in_the_store(bed, here, tmp_path):
    bed.ready(2)
    bed.quiz.ask("hold-c3")
    regrade, _ = detach(bed)
    until(lambda: bed.manifests(regrade), "one shard is done, the other is held")
    # a long dispatch's stream holds its newest events only
    bed.fleet.client.delete(f"mst:{{{bed.scope(regrade)}}}:events")
    attached = elsewhere(bed, tmp_path / "laptop2", "attach", regrade.run_id)
    bed.quiz.let_go("hold-c3")
    over = ended(attached)
    assert over.code in (0, 1), over.err
    assert "18/18 graded · shards: 2 done" in over.err
    assert differences(here.path, fetched(tmp_path / "laptop2", regrade.run_id).path) == []
    assert set(bed.quiz.calls().values()) == {1}
    # a third machine only reads it
    shown = ended(elsewhere(bed, tmp_path / "laptop3", "show", regrade.run_id, "--results", bed.fleet.store_uri))
    assert shown.code in (0, 1), shown.err
    # and where it was sent from, attach still comes to the same
    late = bed.mst("attach", regrade.run_id)
    assert late.code in (0, 1), late.err
    assert "has the result already" in late.err
    assert differences(here.path, regrade.path) == []
    # one that was killed in its last push left all but the manifest; the run may be named as well as its regrade
    for name in (regrade.run_id, regrade.run().graded_from):
        unpush(bed.fleet.store_uri, "quiz", regrade.run_id)
        finished = bed.mst("attach", name)
        assert finished.code in (0, 1), finished.err
        assert f"pushed to {bed.fleet.store_uri}" in finished.err
    # there is nothing left to go on with, so no plan is asked for
    assert "nothing to do" in bed.mst("attach", regrade.run_id).err
    assert not regrade.work.exists()
    assert set(bed.quiz.calls().values()) == {1}


def test_two_coordinators_at_once_come_to_the_same_and_nothing_is_graded_twice(bed, here, tmp_path):
    bed.ready(2)
    bed.quiz.ask("hold")
    regrade, _ = detach(bed)
    both = [bed.begin("attach", regrade.run_id), elsewhere(bed, tmp_path / "other", "attach", regrade.run_id)]
    bed.quiz.let_go("hold")
    for over in map(ended, both):
        assert over.code in (0, 1), over.err
    for path in (regrade.path, fetched(tmp_path / "other", regrade.run_id).path):
        assert differences(here.path, path) == []
    assert set(bed.quiz.calls().values()) == {1}


def test_a_broker_and_a_store_with_new_addresses_are_those_that_the_user_names_now(bed, here, tmp_path):
    bed.ready(1)
    bed.quiz.ask("hold")
    regrade, _ = detach(bed)
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    # what was recorded leads nowhere any more; the same broker and store have other addresses since
    run = regrade.run()
    options = run.grading.runner.options | {"broker": "redis://127.0.0.1:1/0", "store": "file:/nowhere"}
    runner = run.grading.runner.model_copy(update={"options": options})
    regrade.write_run(run.model_copy(update={"grading": run.grading.model_copy(update={"runner": runner})}))
    socket = without_password(bed.fleet.broker.url).partition("://")[2]
    (tmp_path / "s").symlink_to(socket)
    moved = {"MST_BROKER_URL": bed.fleet.broker.url.replace(socket, str(tmp_path / "s"))}
    attached = bed.begin("attach", regrade.run_id, env=moved)
    said = until(attached.stderr.readline, "it says where it goes on")
    bed.quiz.let_go("hold")
    over = ended(attached)
    assert over.code in (0, 1), over.err
    assert f"the broker is redis+socket://{tmp_path / 's'} now (MST_BROKER_URL); redis://127.0.0.1:1/0" in said
    assert differences(here.path, regrade.path) == []
    assert regrade.run().grading.runner.dispatches == ["d1"]
    assert set(bed.quiz.calls().values()) == {1}


def test_after_a_wipe_another_machine_writes_ledger_and_grants_again(bed, here, tmp_path):
    bed.ready(0)
    home = tmp_path / "laptop2"
    regrade, _ = detach(bed, "--runner-option", "wait=true")
    bed.fleet.client.flushall()
    line = f"{regrade.run_id} quiz: waiting for a coordinator; go on with: mst attach {regrade.run_id}"
    assert line in bed.mst("ps").out.splitlines()
    attached = elsewhere(bed, home, "attach", regrade.run_id)
    said = until(attached.stderr.readline, "it says that nobody is there")
    while "wait" not in said:
        said = attached.stderr.readline()
    start = f"start one with 'mst worker' of this version ({__version__})"
    assert said == f"mst: 2 shards wait: no worker serves the queue {GRADE_QUEUE}; {start}\n"
    bed.fleet.start()
    over = ended(attached)
    assert over.code in (0, 1), over.err
    assert f"the queue {GRADE_QUEUE} is served now: 1 worker" in over.err
    found = fetched(home, regrade.run_id)
    assert differences(here.path, found.path) == []
    assert found.run().grading.runner.dispatches == ["d1"]
    assert set(bed.quiz.calls().values()) == {1}


def test_after_a_wipe_secrets_are_sealed_again_from_the_file_and_without_it_the_command_says_so(bed, tmp_path):
    own = Bed(bed.fleet, tmp_path / "secret", cases=2, secret=True)
    keys = tmp_path / "keys.env"
    keys.write_text("QUIZ_KEY=hunter2-of-the-quiz\n")
    bed.ready(0)
    own.quiz.forget()
    said = own.grade("--detach", "--secrets-file", keys, "--runner-option", "wait=true", shards=1)
    assert said.code == 0, said.err
    regrade = own.newest()
    bed.fleet.client.flushall()
    poor = ended(elsewhere(bed, tmp_path / "laptop2", "attach", regrade.run_id))
    assert poor.code == 2, poor.err
    assert "--secrets-file" in poor.error_lines[-1]
    attached = elsewhere(bed, tmp_path / "laptop2", "attach", regrade.run_id, "--secrets-file", keys)
    until(lambda: bed.fleet.client.exists(f"mst:{{{own.scope(regrade)}}}:head"), "the ledger is written again")
    bed.fleet.start()
    over = ended(attached)
    assert over.code in (0, 1), over.err
    assert set(own.quiz.lines("digests")) == {digest("hunter2-of-the-quiz")}
    assert fetched(tmp_path / "laptop2", regrade.run_id).run().grading.runner.dispatches == ["d1"]


def test_ps_shows_runs_and_shards_in_flight(bed, tmp_path):
    bed.ready(2)
    bed.quiz.ask("hold")
    regrade, _ = detach(bed)
    until(lambda: len(bed.quiz.lines("held")) >= 2, "both shards run")
    found = json.loads(ended(elsewhere(bed, tmp_path / "other", "ps", "--json")).out)
    [run] = [run for run in found["runs"] if run["runId"] == regrade.run_id]
    assert (run["eval"], run["dispatch"], run["work"], run["units"], run["done"]) == ("quiz", "d1", "grade", 18, 0)
    assert run["shards"] == {"running": 2}
    assert {shard["worker"] for shard in run["inFlight"]} == set(bed.fleet.workers)
    text = bed.mst("ps").out
    assert f"{regrade.run_id} d1 grade" in text
    assert "shard 0 running" in text
    cancelled = ended(elsewhere(bed, tmp_path / "other", "cancel", regrade.run_id))
    assert cancelled.code == 0, cancelled.err
    bed.quiz.let_go("hold")
    over = bed.mst("attach", regrade.run_id)
    assert over.code == 3, over.err
    assert regrade.run_id not in bed.mst("ps", "--json").out


def test_detaching_needs_a_fleet_that_stays(bed, tmp_path):
    for runner in ("celery", "process"):
        said = run_mst("grade", bed.source.path, "--runner", runner, "--detach", cwd=bed.home)
        assert said.code == 2
        assert said.error_lines[-1].startswith("mst: --detach: ")
