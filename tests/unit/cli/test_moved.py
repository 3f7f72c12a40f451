"""Broker and store that the user names when attaching, and those that were recorded."""

from types import SimpleNamespace

import pytest

from mst.cli.detaching import say_detached
from mst.cli.moved import options_now, refuse_unfit
from mst.errors import UsageError
from mst.shards.detached import Detached
from mst.testing.stored_run import collect_run, write_echo_eval

RECORDED = {"shards": 3, "broker": "redis://old:6379/0", "store": "s3://old/evals", "machine": "made up by a runner"}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch):
    for name in ("MST_BROKER_URL", "MST_STORE"):
        monkeypatch.delenv(name, raising=False)


def test_what_is_said_now_wins_over_the_record_and_is_told(monkeypatch, capsys):
    known = {"shards": "3", "broker": "redis://old:6379/0", "store": "s3://old/evals"}
    assert options_now("celery", RECORDED, {}) == known
    monkeypatch.setenv("MST_BROKER_URL", "redis://:hidden@old:6379/0")
    assert options_now("celery", RECORDED, {}) == known
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("MST_BROKER_URL", "redis://:hidden@new:6379/0")
    now = options_now("celery", RECORDED, {"store": "s3://given/evals", "image": "sha256:1"})
    # without an option, the environment's is taken, with its password
    assert now == {"shards": "3", "store": "s3://given/evals", "image": "sha256:1"}
    assert capsys.readouterr().err == (
        "mst: the broker is redis://new:6379/0 now (MST_BROKER_URL); redis://old:6379/0 is what was recorded\n"
    )
    assert options_now("local", {}, {"store": "s3://given/evals"}) == {}


def test_a_folder_is_the_same_store_however_it_is_written(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MST_STORE", "file:store")
    recorded = {"shards": 3, "store": f"file:{tmp_path / 'store'}"}
    assert options_now("celery", recorded, {})["store"] == recorded["store"]
    assert capsys.readouterr().err == ""


def test_a_command_for_another_machine_names_the_store_whole(monkeypatch, capsys):
    uri = "s3://evals/team?endpoint_url=http://10.0.0.7:8333&region=us-east-1"
    monkeypatch.setenv("MST_STORE", uri)
    sent = SimpleNamespace(run_id="7f3c2a", dispatch="d1", work="grade")
    say_detached(Detached(sent, 2), None)
    assert f"MST_STORE='{uri}' mst attach 7f3c2a" in capsys.readouterr().err


@pytest.fixture
def sent(tmp_path):
    """A run on a fleet of which a dispatch was sent."""
    run = collect_run(write_echo_eval(tmp_path / "eval"), tmp_path / "results")
    record = run.run()
    where = record.environment.model_copy(update={"name": "celery", "options": {"shards": 1, "store": "file:/nowhere"}})
    run.write_run(record.model_copy(update={"environment": where}))
    (run.work / "d1").mkdir(parents=True)
    return run


def test_a_store_without_the_shards_that_were_sent_is_refused(sent, tmp_path, monkeypatch):
    refuse_unfit(sent, {})
    store = tmp_path / "store"
    monkeypatch.setenv("MST_STORE", f"file:{store}")
    with pytest.raises(
        UsageError, match="has none of the shards that were sent; they went through file:/nowhere: unset"
    ):
        refuse_unfit(sent, {})
    (store / sent.run().eval_name / "dispatches" / sent.run_id / "d1").mkdir(parents=True)
    (store / sent.run().eval_name / "dispatches" / sent.run_id / "d1" / "dispatch.json").touch()
    refuse_unfit(sent, {})


def test_an_option_that_no_runner_of_the_run_has_is_refused(sent):
    refuse_unfit(sent, {"shards": "2"})
    with pytest.raises(UsageError, match=r"max_parallel: what .* runs on has no such option; it has shards"):
        refuse_unfit(sent, {"max_parallel": "2"})
