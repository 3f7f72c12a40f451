"""The signal and the rule: bounds, laws, and what a number of workers must never be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.errors import UsageError
from mst.fleet.scale import Rule, Signal, shown

signals = st.builds(
    Signal,
    queued=st.integers(0, 5000),
    running=st.integers(0, 5000),
    workers=st.integers(0, 2000),
    slots=st.integers(1, 16),
)
rules = st.builds(
    Rule,
    target=st.floats(0.1, 20),
    least=st.integers(0, 5),
    most=st.integers(5, 3000),
    step=st.none() | st.integers(1, 50),
)


def test_zero_to_one_and_back_to_zero():
    rule = Rule(most=10)
    assert rule.desired(Signal()) == 0
    assert rule.desired(Signal(queued=1)) == 1
    assert rule.desired(Signal(workers=1)) == 0


def test_running_shards_count():
    assert Rule(most=10).desired(Signal(running=4, workers=4)) == 4


def test_slots_and_target_divide():
    assert Rule(target=2, most=100).desired(Signal(queued=33, slots=4)) == 5


@given(signals, rules)
def test_bounds_hold(signal, rule):
    assert rule.least <= rule.desired(signal) <= rule.most


@given(signals, rules)
def test_no_machine_is_taken_from_a_running_shard(signal, rule):
    busy = -(-signal.running // signal.slots)
    assert rule.desired(signal) >= min(rule.most, busy, signal.workers)


@given(signals, rules, st.integers(1, 100))
def test_more_waiting_never_means_fewer_workers(signal, rule, more):
    worse = Signal(queued=signal.queued + more, running=signal.running, workers=signal.workers, slots=signal.slots)
    assert rule.desired(worse) >= rule.desired(signal)


@given(signals)
def test_backlog_per_worker_is_finite(signal):
    assert 0 <= signal.backlog_per_worker <= signal.backlog


@pytest.mark.parametrize("wrong", [{"target": 0}, {"least": 3, "most": 2}, {"step": 0}])
def test_a_rule_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError, match="scaling rule"):
        Rule(**wrong)


def test_what_is_printed_has_the_number():
    found = shown(Signal(queued=3, running=1, workers=2, slots=2), Rule(most=9))
    assert (found["desired"], found["backlog"], found["backlog_per_worker"]) == (2, 4, 1.0)
