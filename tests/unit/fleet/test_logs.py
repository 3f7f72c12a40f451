"""Nothing of the fleet's log reaches stdout, where a command's answer is."""

import json

import pytest
import structlog

from mst.fleet.logs import log_for_machines, log_for_people


@pytest.fixture(autouse=True)
def _as_before():
    yield
    structlog.reset_defaults()


def test_people_read_a_reason_once_until_another_comes(capsys):
    log_for_people()
    log = structlog.get_logger()
    for reason in ("no answer", "no answer", "denied", "no answer"):
        log.warning("janitor_waits", reason=reason)
    log.info("shard_sent_again", shard=1)
    log.warning("token_refused")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["mst: no answer", "mst: denied", "mst: no answer", "mst: token refused"]


def test_machines_read_lines_of_json(capsys):
    log_for_machines("info")
    structlog.get_logger().info("shard_granted", shard=3)
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err)["shard"] == 3
