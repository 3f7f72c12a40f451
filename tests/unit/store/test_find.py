"""Runs of a store are found in an order that people expect, and with as few requests as the question needs."""

import pytest

from mst.store.find import find_run, list_runs
from mst.store.publish import push_run

from .conftest import RUN, latest


class Counting:
    """A store that remembers which folders were listed."""

    def __init__(self, store):
        self._store = store
        self.listed = []

    def list_folder(self, prefix):
        self.listed.append(prefix)
        return self._store.list_folder(prefix)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture
def filled(store, facts, run_dir):
    """A store with a run, its gradings 2 to 11, and another run; the last one is the latest."""
    for run_id in [RUN, *(f"{RUN}.g{number}" for number in range(2, 12)), "20260302T030405Z-def456"]:
        push_run(
            store,
            run_dir,
            eval_name="my eval",
            run_id=run_id,
            facts=facts,
            latest=latest(run_id, f"{run_id[:4]}-01-02"),
        )
    return Counting(store)


def test_runs_are_in_order_of_their_gradings_numbers(filled):
    numbered = [RUN, *(f"{RUN}.g{number}" for number in range(2, 12))]
    assert [run.run_id for run in list_runs(filled)] == [*numbered, "20260302T030405Z-def456"]


@pytest.mark.parametrize("ref", [f"{RUN}.g10", "abc123.g10"])
def test_a_run_is_found_without_a_look_at_the_others(filled, ref):
    assert find_run(filled, ref).run_id == f"{RUN}.g10"
    assert filled.listed == ["", "my%20eval/runs", f"my%20eval/runs/{RUN}.g10"]


def test_the_latest_is_found_without_a_look_at_the_others(filled):
    found = find_run(filled, "latest")
    assert filled.listed == ["", "my%20eval/runs", f"my%20eval/runs/{found.run_id}"]
