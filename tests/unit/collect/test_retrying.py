"""Trials that are made again: only what the machine or mst broke, bounded, every attempt told and linked."""

from __future__ import annotations

import asyncio

import pytest

from mst.clients.contract import ClientResult
from mst.clients.echo import Echo
from mst.collect.loop import collect
from mst.collect.retrying import LONGEST_PAUSE_S, link, may_retry, pause_s
from mst.errors import ClientError, StoreUnavailable
from mst.model.case import Case, EvalPlan, Variant
from mst.model.keys import TrialKey
from mst.model.transcript import Transcript
from mst.model.trial import TrialRecord


def record(kind=None, **fields):
    infra = kind in {"environment", "harness", "worker_lost", "broker"}
    settled = {"run_id": "r", "variant": "v", "case_id": "c", "dataset_name": "d", "trial": 0, "duration_ms": 1}
    status = "error" if kind else "completed"
    return TrialRecord(**settled, status=status, error_kind=kind, infrastructure_error=infra, **fields)


class Flaky(Echo):
    """A client whose first `faults` trials of a case end as told."""

    kind = "environment"

    def __init__(self, variant, faults=1):
        super().__init__(variant)
        self.faults = faults
        self.calls = 0

    async def run(self, case, workspace, context):
        self.calls += 1
        if self.calls <= self.faults:
            if self.kind == "agent":
                return ClientResult(transcript=Transcript(), error="it failed", error_kind="agent")
            if self.kind == "nothing":
                return ClientResult(transcript=Transcript(), error="nothing")
            raise ClientError(f"fault {self.calls}", self.kind)
        return ClientResult(transcript=Transcript(final_text="x"))


def go(bench, client, *, retries, sink=None, cancel=None, case=None):
    seen = []
    plan = EvalPlan(
        name="e", config_id="i", content_hash="h", variants=[Variant(name="v")], baseline="v", retries=retries
    )
    counts = asyncio.run(
        collect(
            plan,
            {"c": case or Case(id="c", dataset="d", input="q")},
            [TrialKey(variant="v", case_id="c", trial=0)],
            bench.context(plan),
            sink=sink or seen.append,
            cancel=cancel or asyncio.Event(),
            make_client=lambda _variant: client,
            pause_scale=0.0,
        )
    )
    return counts, seen


@pytest.mark.parametrize("kind", ["environment", "harness"])
def test_a_trial_that_broke_down_is_made_again_and_only_the_last_attempt_counts(bench, kind):
    client = Flaky(Variant(name="v"), faults=2)
    client.kind = kind
    counts, [collected] = go(bench, client, retries=2)
    assert (counts.collected, counts.infra) == (1, 0)
    assert collected.record.status == "completed"
    first, second = (attempt.record for attempt in collected.superseded)
    assert [first.error, second.error] == ["fault 1", "fault 2"]
    assert [first.retry_of, second.retry_of, collected.record.retry_of] == [None, first.attempt_id, second.attempt_id]
    assert [first.attempt, second.attempt, collected.record.attempt] == [None, 2, 3]
    assert len({first.attempt_id, second.attempt_id, collected.record.attempt_id}) == 3


def test_retries_are_bounded_and_the_last_fault_stands(bench):
    client = Flaky(Variant(name="v"), faults=99)
    counts, [collected] = go(bench, client, retries=3)
    assert client.calls == 4
    assert (counts.collected, counts.infra) == (0, 1)
    assert (collected.record.error, len(collected.superseded)) == ("fault 4", 3)


def test_nothing_is_made_again_unless_the_plan_allows_it(bench):
    client = Flaky(Variant(name="v"))
    _, [collected] = go(bench, client, retries=0)
    assert (client.calls, collected.superseded, collected.record.attempt) == (1, (), None)


@pytest.mark.parametrize("kind", ["agent", "nothing"])
def test_an_answer_is_never_rolled_again(bench, kind):
    client = Flaky(Variant(name="v"))
    client.kind = kind
    _, [collected] = go(bench, client, retries=5)
    assert (client.calls, collected.superseded) == (1, ())


def test_nothing_is_made_again_after_a_cancellation(bench):
    cancel = asyncio.Event()
    client = Flaky(Variant(name="v"), faults=99)
    plain = client.run

    async def cancelling(*given):
        cancel.set()
        return await plain(*given)

    client.run = cancelling
    _, [collected] = go(bench, client, retries=5, cancel=cancel)
    assert (client.calls, collected.record.error) == (1, "fault 1")


def test_files_of_every_attempt_reach_the_sink_and_are_gone_after_it(bench):
    class Broken(Flaky):
        """Its first trial leaves files and says that the machine broke."""

        async def run(self, case, workspace, context):
            self.calls += 1
            (workspace / "left.txt").write_text(str(self.calls))
            if self.calls == 1:
                return ClientResult(transcript=Transcript(), error="no server", error_kind="environment")
            return ClientResult(transcript=Transcript(final_text="x"))

    seen = []

    def sink(collected):
        seen.extend((attempt.artifacts / "left.txt").read_text() for attempt in collected.attempts)

    go(bench, Broken(Variant(name="v")), retries=1, sink=sink, case=bench.case({"f": "1"}))
    assert seen == ["1", "2"]
    assert bench.left() == []


def test_a_sink_that_fails_leaves_no_files_of_any_attempt(bench):
    def sink(collected):
        raise StoreUnavailable("disk full")

    with pytest.raises(StoreUnavailable):
        go(bench, Flaky(Variant(name="v")), retries=1, sink=sink, case=bench.case({"f": "1"}))
    assert bench.left() == []


@pytest.mark.parametrize(
    ("kind", "made", "retries", "again"),
    [
        ("environment", 1, 1, True),
        ("harness", 2, 2, True),
        ("environment", 2, 1, False),
        ("agent", 1, 9, False),
        ("worker_lost", 1, 9, False),
        ("broker", 1, 9, False),
        (None, 1, 9, False),
    ],
)
def test_what_is_made_again(kind, made, retries, again):
    assert may_retry(record(kind), made=made, retries=retries) is again


def test_pauses_grow_and_end_somewhere():
    assert [pause_s(made) for made in (1, 2, 3)] == [1, 2, 4]
    assert pause_s(1000) == LONGEST_PAUSE_S


def test_links_go_on_after_earlier_attempts():
    [one, two] = link([record(attempt_id="b"), record(attempt_id="c")], after=[record(attempt_id="a")])
    assert (one.attempt, one.retry_of, two.attempt, two.retry_of) == (2, "a", 3, "b")
