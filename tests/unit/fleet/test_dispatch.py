"""Sending a dispatch through a broker that is silent for a while."""

import pytest

from mst.errors import BrokerError, StoreError
from mst.fleet.dispatch import patiently


class Broker:
    """Answers from the nth question on."""

    def __init__(self, answers_at, error=BrokerError):
        self.answers_at, self.error, self.asked = answers_at, error, 0

    def ask(self):
        self.asked += 1
        if self.asked < self.answers_at:
            raise self.error("no answer")
        return "answer"


def test_it_is_asked_again_until_it_answers():
    broker = Broker(answers_at=4)
    assert patiently(broker.ask, within_s=60, pause_s=0.001) == "answer"
    assert broker.asked == 4


def test_it_is_given_up_in_time():
    broker = Broker(answers_at=10**9)
    with pytest.raises(BrokerError):
        patiently(broker.ask, within_s=0.05, pause_s=0.01)
    assert 1 <= broker.asked <= 6


def test_other_errors_are_not_repeated():
    broker = Broker(answers_at=2, error=StoreError)
    with pytest.raises(StoreError):
        patiently(broker.ask)
    assert broker.asked == 1
