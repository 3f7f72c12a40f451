"""Many at once, bounded."""

import threading

import pytest

from mst.store.transfer import each, run_each


def test_results_come_in_order():
    assert list(each(lambda n: n * n, range(500), workers=8)) == [n * n for n in range(500)]


def test_items_are_taken_as_they_are_needed():
    taken = []

    def items():
        for number in range(10_000):
            taken.append(number)
            yield number

    results = each(lambda n: n, items(), workers=2)
    assert next(results) == 0
    assert len(taken) <= 8
    results.close()


def test_workers_run_at_once():
    barrier = threading.Barrier(4, timeout=10)
    run_each(lambda _: barrier.wait(), range(8), workers=4)


def test_the_first_error_ends_it():
    started = []

    def act(number):
        started.append(number)
        if number == 3:
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        run_each(act, range(10_000), workers=2)
    assert len(started) < 100
