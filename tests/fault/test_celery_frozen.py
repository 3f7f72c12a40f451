"""A broker that takes connections and says nothing: worse than one that is gone, since every question waits."""

import signal
import time

import pytest

from mst.fleet.connect import without_password
from mst.runs.locate import regrades_of
from mst.testing.commandline import ended, until
from mst.testing.equality import differences
from mst.testing.fleet import Bed, fleet

pytestmark = pytest.mark.server

CLOSING_S = 60.0
"""Far more than closing takes on a busy machine, and far less than the minutes that it once took."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"))


@pytest.fixture(scope="module")
def here(bed):
    return bed.here()


def begin_held(bed):
    bed.ready(2)
    bed.quiz.ask("hold-c3", "hold-c4")
    running = bed.start(shards=2)
    until(lambda: len(bed.quiz.lines("held")) >= 2, "2 judges are held")
    return running


def test_a_coordinator_ends_soon_after_the_last_shard_though_its_broker_is_frozen(bed, here):
    running = begin_held(bed)
    with bed.fleet.broker.frozen():
        bed.quiz.let_go("hold-c3", "hold-c4")
        until(lambda: len(bed.manifests(bed.newest())) == 2, "both shards are in the store", within_s=120)
        committed = time.monotonic()
        said = ended(running)
        took_s = time.monotonic() - committed
    assert said.code in (0, 1), said.err
    assert took_s < CLOSING_S
    assert "the broker does not answer" in said.err
    assert differences(here.path, bed.newest().path) == []


def test_a_command_that_is_stopped_while_its_broker_is_frozen_ends_with_what_is_finished(bed):
    running = begin_held(bed)
    with bed.fleet.broker.frozen():
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        said = ended(running)
        took_s = time.monotonic() - began
        bed.quiz.let_go("hold-c3", "hold-c4")
    assert said.code == 130, said.err
    assert took_s < CLOSING_S
    assert "--resume" in said.err


def test_a_command_that_finds_its_broker_frozen_leaves_nothing(bed):
    bed.ready(1)
    before = len(regrades_of(bed.source))
    with bed.fleet.broker.frozen():
        said = bed.grade()
    assert said.code == 4
    (line,) = said.error_lines
    assert line.startswith(f"mst: broker {without_password(bed.fleet.broker.url)}: the broker does not answer; ")
    assert len(regrades_of(bed.source)) == before


def test_a_command_whose_broker_goes_before_anything_is_sent_leaves_nothing(bed):
    bed.ready(0)
    before = len(regrades_of(bed.source))
    running = bed.start()
    for line in running.stderr:
        if "no worker says yet" in line:
            break
    bed.fleet.broker.kill()
    said = ended(running)
    bed.fleet.revive()
    assert said.code == 4, said.err
    assert "nothing was sent" in said.err
    assert len(regrades_of(bed.source)) == before
