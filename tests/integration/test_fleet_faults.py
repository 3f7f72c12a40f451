"""A judge whose key is gone is found once for all shards, here and on a fleet; a verdict in between starts anew."""

import pytest

from mst.errors import BrokerError
from mst.fleet.connect import connect
from mst.fleet.faults import FleetFaults
from mst.grade.breaker import STOP_AFTER
from mst.runs.locate import regrades_of
from mst.shards.faults import LocalFaults
from mst.testing.commandline import run_mst
from mst.testing.fleet import fleet
from mst.testing.modelscript import EXPIRED_KEY
from mst.testing.modelserver import model_server
from mst.testing.servers import valkey
from mst.testing.stored_run import collect_run, write_echo_eval

pytestmark = pytest.mark.server

KEY = "sk" + "-judge-0123456789abcdef"  # put together, so that no key stands in the tree
CASES = 12
SCOPE = "20260501T120000Z-abc123.d1.grade"


@pytest.fixture(params=["here", "fleet"])
def faults(request, tmp_path):
    if request.param == "here":
        yield LocalFaults()
        return
    with valkey(tmp_path / "broker") as server:
        client = connect(server.url)
        yield FleetFaults(client, SCOPE)
        assert all(client.ttl(name) > 0 for name in client.scan_iter())
        client.close()


def test_faults_of_one_kind_in_a_row_stop_a_judge_for_all(faults):
    for _ in range(STOP_AFTER - 1):
        assert faults.failed("judge:a", "auth", "the key is gone") is None
        assert faults.failed("judge:a", "transport", "no way there") is None
        assert faults.failed("judge:b", "auth", "the key is gone") is None
    faults.answered("judge:b")
    assert faults.stopped() == {}
    why = faults.failed("judge:a", "auth", "the key is gone")
    assert f"stopped after {STOP_AFTER} answers" in why
    assert "(auth: the key is gone)" in why
    assert faults.stopped() == {"judge:a": why}
    assert faults.failed("judge:b", "auth", "the key is gone") is None
    # a straggler's verdict changes nothing any more, and neither does another reason
    faults.answered("judge:a")
    assert faults.failed("judge:a", "quota", "no money") == why
    assert faults.stopped() == {"judge:a": why}


def test_a_broker_that_is_gone_is_an_error(tmp_path):
    with valkey(tmp_path / "broker") as server:
        client = connect(server.url)
        faults = FleetFaults(client, SCOPE)
    for ask in (faults.stopped, lambda: faults.answered("a"), lambda: faults.failed("a", "auth", "x")):
        with pytest.raises(BrokerError):
            ask()
    client.close()


@pytest.mark.parametrize("runner", ["process", "celery"])
def test_a_key_that_is_gone_is_tried_a_few_times_and_not_by_every_shard(tmp_path, runner):
    with model_server(lambda _call: EXPIRED_KEY) as server:
        config = write_echo_eval(
            tmp_path / "eval",
            cases=CASES,
            assertions=[],
            concurrency=1,
            judges=[
                {
                    "name": "polite",
                    "rubric": {
                        "model": "m",
                        "base_url": server.openai_url,
                        "api_key": "JUDGE_KEY",
                        "rubric": "Does it say please?",
                    },
                }
            ],
        )
        (tmp_path / "keys.env").write_text(f"JUDGE_KEY={KEY}\n")
        source = collect_run(config, tmp_path / ".mst-results")
        arguments = ["grade", source.path, "--runner", runner, "--runner-option", "shards=10"]
        arguments += ["--secrets-file", tmp_path / "keys.env"]
        server.keys.clear()
        if runner == "process":
            said = run_mst(*arguments, "--runner-option", "max_parallel=2", cwd=tmp_path)
        else:
            with fleet(tmp_path / "fleet") as one:
                one.start()
                one.start()
                said = run_mst(*arguments, cwd=tmp_path, env=one.coordinator)
        assert said.code == 3, said.err
        asked = server.keys[KEY]
    # two shards at a time with one call each, none of which asks again before its fault is counted: when the last one
    # that it takes is, the other shard may have a call under way
    assert STOP_AFTER <= asked <= STOP_AFTER + 1 < 2 * CASES
    errors = [trial.grading_error for case in regrades_of(source)[-1].case_results() for trial in case.trial_results]
    assert len(errors) == 2 * CASES
    assert all(errors)
    assert sum("Not asked: stopped after" in error for error in errors) == 2 * CASES - asked
    assert KEY not in "".join(errors)
