from __future__ import annotations

import pytest

from mst.providers.attempts import (
    MAX_TOLD_WAITS,
    MAX_WAIT_S,
    Again,
    GiveUp,
    Leave,
    ModelFault,
    after,
    backoff_s,
    bound_s,
)


def decide(fault: ModelFault, **changes):
    return after(fault, **{"retries_left": 0, "retried": 0, "told_waits": 0, "is_last": True, **changes})


def fault(kind, status=None, retry_after_s=None):
    return ModelFault("x", kind, status=status, retry_after_s=retry_after_s)


def test_too_many_requests_is_waited_out_as_told_and_spends_no_retry():
    assert decide(fault("rate_limit", 429, 7.0)) == Again(7.0, told=True)
    assert decide(fault("rate_limit", 429), told_waits=2) == Again(backoff_s(2), told=True)


def test_waiting_is_bounded_in_number_and_length():
    assert decide(fault("rate_limit", 429, 1.0), told_waits=MAX_TOLD_WAITS) == GiveUp()
    assert decide(fault("rate_limit", 429, MAX_WAIT_S + 1)) == GiveUp()
    assert decide(fault("server", 503, 10_000.0), retries_left=1) == Again(MAX_WAIT_S)


@pytest.mark.parametrize("kind", ["server", "timeout", "transport"])
def test_transport_faults_spend_a_retry(kind):
    assert isinstance(decide(fault(kind), retries_left=1), Again)
    assert decide(fault(kind), retries_left=0) == GiveUp()


@pytest.mark.parametrize("kind", ["answer", "refusal", "auth", "quota", "request", "grader"])
def test_what_the_model_said_or_refused_is_never_asked_again(kind):
    assert decide(fault(kind), retries_left=5) == GiveUp()


@pytest.mark.parametrize(
    ("found", "leaves"),
    [
        (fault("server", 500), True),
        (fault("server", 503), True),
        (fault("timeout"), True),
        (fault("quota", 402), True),
        (fault("request", 402), True),
        (fault("quota", 429), False),
        (fault("auth", 401), False),
        (fault("request", 400), False),
        (fault("transport"), False),
        (fault("answer"), False),
        (fault("refusal"), False),
        (fault("rate_limit", 429, MAX_WAIT_S + 1), False),
    ],
)
def test_a_provider_is_left_only_for_402_5xx_and_silence(found, leaves):
    assert decide(found, is_last=False) == (Leave() if leaves else GiveUp())
    assert decide(found, is_last=True) == GiveUp()


def test_retries_come_before_the_next_provider():
    assert isinstance(decide(fault("server", 500), retries_left=1, is_last=False), Again)


def test_waits_double_up_to_a_bound_and_the_whole_is_bounded():
    assert [backoff_s(n) for n in (0, 1, 2, 50)] == [0.5, 1.0, 2.0, 30.0]
    assert bound_s(10.0, retries=1, providers=2) == 4 * 40.0 + MAX_TOLD_WAITS * MAX_WAIT_S
