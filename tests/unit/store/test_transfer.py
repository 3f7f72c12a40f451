"""Many at once, bounded."""

import threading

import pytest

from mst.store.transfer import each, each_as_it_ends


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
    list(each(lambda _: barrier.wait(), range(8), workers=4))


@pytest.mark.parametrize("act_on", [each, each_as_it_ends])
def test_the_first_error_ends_it(act_on):
    started = []

    def act(number):
        started.append(number)
        if number == 3:
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        list(act_on(act, range(10_000), workers=2))
    assert len(started) < 100


def test_nobody_waits_for_the_slowest():
    slow = threading.Event()
    results = each_as_it_ends(lambda n: n or slow.wait(60), range(100), workers=2)
    assert [next(results) for _ in range(99)] == list(range(1, 100))
    slow.set()
    assert list(results) == [True]


def test_no_worker_is_idle_while_a_result_is_consumed():
    at_work = threading.Semaphore(0)

    def act(number):
        at_work.release()
        return number

    results = each_as_it_ends(act, range(3), workers=1)
    assert next(results) == 0
    assert all(at_work.acquire(timeout=10) for _ in range(2))
    assert list(results) == [1, 2]


def test_only_so_many_are_taken_before_one_is_consumed():
    taken = []

    def items():
        for number in range(10_000):
            taken.append(number)
            yield number

    results = each_as_it_ends(lambda n: n, items(), workers=2)
    for consumed in range(1, 50):
        next(results)
        assert len(taken) <= consumed + 2
    results.close()
