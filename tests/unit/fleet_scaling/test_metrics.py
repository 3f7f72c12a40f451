"""Metrics: what is counted, under labels that no run, shard or case can make more of."""

import re
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client import generate_latest

from mst.cli.progress import Progress
from mst.errors import UsageError
from mst.fleet.coordinator_metrics import served
from mst.fleet.metrics import EVALS_MAX, Bounded, SignalMetrics, WorkerMetrics, serve
from mst.fleet.scale import Signal
from mst.shards.contract import ShardState
from mst.testing.servers import free_ports


def text(metrics):
    return generate_latest(metrics.registry).decode()


def test_a_thousand_evals_make_no_thousand_series():
    metrics = WorkerMetrics()
    for number in range(1000):
        metrics.attempt_started()
        metrics.attempt_ended(work="grade", eval_name=f"e{number}", how="committed", seconds=1)
        metrics.unit_done(work="grade", eval_name=f"e{number}", seconds=0.1)
    series = [line for line in text(metrics).splitlines() if not line.startswith("#")]
    assert len(series) < 4 * EVALS_MAX + 60
    assert 'mst_units_total{eval_name="other",work="grade"} 950.0' in series
    assert "mst_shards_held 0.0" in series


def test_judge_calls_and_cost_are_added_up():
    metrics = WorkerMetrics()
    metrics.used(eval_name="e", judge_calls=3, cost_usd=0.25)
    metrics.used(eval_name="e", judge_calls=1, cost_usd=0.5)
    assert 'mst_judge_calls_total{eval_name="e"} 4.0' in text(metrics)
    assert 'mst_cost_usd_total{eval_name="e"} 0.75' in text(metrics)


def test_the_age_of_leases_is_that_of_the_one_that_waits_longest():
    metrics = WorkerMetrics()

    def age():
        return float(re.search(r"^mst_lease_age_seconds (\S+)$", text(metrics), re.MULTILINE)[1])

    assert age() == 0
    now = time.monotonic()
    metrics.lease_held("r.d1.grade.1", now - 50)
    metrics.lease_held("r.d1.grade.2", now)
    assert 50 <= age() < 500
    metrics.lease_held("r.d1.grade.1", None)
    assert age() < 50


def test_an_unknown_end_is_other():
    metrics = WorkerMetrics()
    metrics.attempt_started()
    metrics.attempt_ended(work="grade", eval_name="e", how="something-new", seconds=1)
    assert 'how="other"' in text(metrics)


def test_the_same_value_is_known_again():
    bounded = Bounded(1)
    assert (bounded("a"), bounded("b"), bounded("a")) == ("a", "other", "a")


def test_the_signal_is_served_over_http():
    metrics = SignalMetrics("pool-a")
    metrics.publish(Signal(queued=3, running=2, workers=1, slots=1, oldest_wait_s=9.5))
    port = serve(metrics.registry, port=0)
    body = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    assert 'mst_fleet_shards{pool="pool-a",state="queued"} 3.0' in body
    assert 'mst_fleet_backlog_per_worker{pool="pool-a"} 5.0' in body
    labels = set(re.findall(r'(\w+)="', body))
    assert labels <= {"pool", "state"}


def test_a_coordinators_progress_is_served_while_it_works(monkeypatch):
    (port,) = free_ports(1)
    monkeypatch.setenv("MST_METRICS_PORT", str(port))

    def read():
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()

    with Progress("graded", 4, {}) as progress:
        progress.one_more(passed=True)
        progress.one_more(passed=None, problem=True)
        progress.state(ShardState(shard=0, state="running"))
        body = read()
    assert 'mst_coordinator_units{state="planned",work="grade"} 4.0' in body
    assert 'mst_coordinator_units{state="done",work="grade"} 2.0' in body
    assert 'mst_coordinator_units{state="problems",work="grade"} 1.0' in body
    assert 'mst_coordinator_shards{state="running",work="grade"} 1.0' in body
    with pytest.raises(urllib.error.URLError):
        read()


@pytest.mark.parametrize("given", ["http", "-1", "70000"])
def test_a_port_that_is_none_is_named(given):
    with pytest.raises(UsageError, match=r"MST_METRICS_PORT=.*a number"), served(dict, {"MST_METRICS_PORT": given}):
        pass


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        given = {"MST_METRICS_PORT": str(taken.getsockname()[1])}
        with pytest.raises(UsageError, match="give another port"), served(dict, given):
            pass
