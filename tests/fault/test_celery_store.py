"""A worker whose store fails in the middle: units wait, or the shard is given back; a refused key fails at once."""

import re

import pytest

from mst.testing.commandline import ended, until
from mst.testing.equality import differences
from mst.testing.faultproxy import fault_proxy
from mst.testing.fleet import Bed, s3_bed

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with s3_bed(tmp_path_factory.mktemp) as bed:
        yield bed


@pytest.fixture(scope="module")
def here(bed):
    return bed.here()


@pytest.fixture
def line(bed):
    """A proxy between workers and store."""
    with fault_proxy(bed.server.endpoint_url) as faults:
        yield faults


def start(bed, line, *options):
    """A worker that reaches the store through the proxy."""
    uri = bed.fleet.store_uri.replace(
        re.sub("[:/]", lambda found: f"%{ord(found[0]):02X}", bed.server.endpoint_url),
        re.sub("[:/]", lambda found: f"%{ord(found[0]):02X}", line.url),
    )
    assert uri != bed.fleet.store_uri
    return bed.fleet.start(*options, env={"MST_STORE": uri})


def begin_held(bed, line, *options):
    """A shard on one worker, held at its third case's first judge; two cases are in the store."""
    bed.ready(0)
    worker = start(bed, line, *options)
    bed.quiz.ask("hold-c3")
    running = bed.start(shards=1)
    until(lambda: bed.quiz.lines("held"), "a judge is held")
    bed.durable()
    return worker, running


def unit_writes(line):
    return [path for method, path in line.seen if method == "PUT" and "/attempts/" in path]


def test_units_wait_for_a_store_that_is_away(bed, here, line):
    worker, running = begin_held(bed, line)
    before = len(unit_writes(line))
    line.always("503")
    bed.quiz.let_go("hold-c3")
    until(lambda: len(bed.quiz.lines("answered")) == len(bed.quiz.keys), "grading goes on without a store")
    until(lambda: len(unit_writes(line)) > before, "uploads are tried")
    line.never()
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert differences(here.path, bed.newest().path) == []
    assert set(bed.quiz.calls().values()) == {1}
    assert worker.log.count("shard_granted") == 1


def test_no_unit_starts_while_many_wait_for_a_store_that_is_away(bed, line, tmp_path):
    many = Bed(bed.fleet, tmp_path / "quiz", cases=40)
    many.ready(0)
    worker = start(bed, line)
    line.plan = lambda method, path: "503" if method == "PUT" and "/attempts/" in path else None
    many.quiz.ask("slow")
    running = many.start(shards=1)
    until(lambda: "shard_held" in worker.log, "the shard is held", within_s=240)
    asked = len(many.quiz.lines("calls"))
    assert asked < len(many.quiz.keys)
    many.quiz.let_go("slow")
    line.never()
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert "shard_goes_on" in worker.log
    assert set(many.quiz.calls().values()) == {1}
    assert set(many.quiz.calls()) == many.quiz.keys


def test_a_shard_is_given_back_when_its_store_stays_away_and_finished_later(bed, here, line):
    worker, running = begin_held(bed, line, "--store-patience", "0.5")
    line.plan = lambda method, path: "503" if method == "PUT" else None
    bed.quiz.let_go("hold-c3")
    until(lambda: '"how": "given_back"' in worker.log, "the shard is given back")
    line.never()
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert "store" in said.err
    assert differences(here.path, bed.newest().path) == []
    calls = bed.quiz.calls()
    # what the store did not take was kept on the machine: only the unit in flight, a case of two variants, may be asked
    # about again
    assert sum(calls.values()) <= len(bed.quiz.keys) + 2
    assert worker.log.count("shard_granted") >= 2


def test_a_refused_key_fails_the_shard_at_once_with_its_reason(bed, here, line):
    worker, running = begin_held(bed, line)
    line.plan = lambda method, path: "expired" if method == "PUT" else None
    bed.quiz.let_go("hold-c3")
    said = ended(running)
    assert said.code == 3, said.err
    assert "expired" in said.err.lower()
    assert worker.log.count("shard_granted") == 1
    regrade = bed.newest()
    errors = {trial.grading_error for case in regrade.case_results() for trial in case.trial_results} - {None}
    assert any("expired" in error.lower() for error in errors)
    line.never()
    again = bed.mst("grade", regrade.path, "--resume", "--runner", "celery")
    assert again.code in (0, 1), again.err
    assert differences(here.path, regrade.path) == []
