import sys
from types import SimpleNamespace

import pytest
from celery.signals import worker_init

from mst.fleet.worker import WorkerOptions, _serve


class Worker:
    """What Celery makes of itself."""

    def __init__(self, exitcode):
        self.exitcode = exitcode


def served(end):
    """The exit code of a worker whose Celery does this."""
    return _serve(SimpleNamespace(worker_main=lambda _argv: end()), WorkerOptions(), "w1")


@pytest.mark.parametrize(("celery_says", "code"), [(None, 0), (0, 0), (1, 1)])
def test_a_worker_ends_as_celery_says_that_it_ended(celery_says, code):
    assert served(lambda: worker_init.send(sender=Worker(celery_says))) == code


def test_a_worker_that_was_ended_while_it_was_put_together_says_so():
    assert served(lambda: sys.exit(2)) == 2
    assert served(lambda: None) == 1
