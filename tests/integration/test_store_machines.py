"""Stores on real servers do, step by step, what the in-memory store does."""

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from mst.store import open_store
from mst.testing.servers import fake_gcs, seaweedfs
from mst.testing.storemachine import StoreMachine

pytestmark = pytest.mark.server
STEPS = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def compare(server, environ, *, tells_writes_apart):
    numbers = itertools.count()

    class Machine(StoreMachine):
        refuses_nesting = False

        def make(self):
            return open_store(server.uri(f"machine/{next(numbers)}"), environ=environ, patience_s=10)

    Machine.tells_writes_apart = tells_writes_apart
    run_state_machine_as_test(Machine, settings=STEPS)
    assert next(numbers) >= 12


def test_s3_does_what_memory_does(tmp_path):
    with seaweedfs(tmp_path / "seaweedfs") as server:
        compare(server, server.environ(), tells_writes_apart=False)


def test_gcs_does_what_memory_does(tmp_path):
    with fake_gcs(tmp_path) as server:
        compare(server, {}, tells_writes_apart=True)
