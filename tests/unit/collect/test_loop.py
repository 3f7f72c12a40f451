"""The loop over trials: bounded, durable first, and not ended by failures."""

from __future__ import annotations

import asyncio

import pytest

from mst.clients.contract import ClientResult
from mst.clients.echo import Echo
from mst.collect.loop import collect
from mst.collect.order import trial_order
from mst.errors import ClientError, ConfigError, StoreUnavailable
from mst.model.case import Case, EvalPlan, Variant
from mst.model.transcript import Transcript


class Scripted(Echo):
    """A client whose trials end as told, and that knows how many ran at once."""

    def __init__(self, variant):
        super().__init__(variant.model_copy(update={"client_options": {}}))
        self.now = self.most = self.closed = 0
        self.gate = None

    async def run(self, case, workspace, context):
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if self.gate is not None:
                await self.gate.wait()
            await asyncio.sleep(0)
            if case.input == "gone":
                raise ClientError("gone")
            if case.input == "nothing":
                return ClientResult(transcript=Transcript(), error="nothing")
            return ClientResult(transcript=Transcript(final_text="x"))
        finally:
            self.now -= 1

    async def close(self):
        self.closed += 1


def plan(*variants, concurrency=3):
    made = list(variants) or [Variant(name="a")]
    return EvalPlan(
        name="e", config_id="i", content_hash="h", variants=made, baseline=made[0].name, concurrency=concurrency
    )


def cases(count, **special):
    found = {f"c{n}": Case(id=f"c{n}", dataset="d", input="q") for n in range(count)}
    for case_id, given in special.items():
        found[case_id] = found[case_id].model_copy(update={"input": given})
    return found


class Run:
    def __init__(self, bench, plan_, cases_, **given):
        self.bench, self.plan, self.cases, self.given = bench, plan_, cases_, given
        self.records, self.clients = [], []
        self.cancel = asyncio.Event()

    def make(self, variant):
        self.clients.append(Scripted(variant))
        return self.clients[-1]

    async def go(self):
        names = [variant.name for variant in self.plan.variants]
        settings = {"sink": lambda c: self.records.append(c.record), "make_client": self.make, **self.given}
        return await collect(
            self.plan,
            self.cases,
            trial_order(self.cases, names, self.given_trials, 1),
            self.bench.context(self.plan),
            cancel=self.cancel,
            **settings,
        )

    def given_trials(self, case_id):
        return 1


def test_every_trial_reaches_the_sink_once_and_is_counted(bench):
    run = Run(bench, plan(Variant(name="a"), Variant(name="b")), cases(10, c1="gone", c2="nothing"))
    counts = asyncio.run(run.go())
    assert (counts.collected, counts.infra, counts.incomplete, counts.not_started) == (16, 2, 2, 0)
    assert len({(record.variant, record.case_id) for record in run.records}) == 20


def test_no_more_run_at_once_than_allowed(bench):
    run = Run(bench, plan(concurrency=3), cases(12))
    asyncio.run(run.go())
    assert run.clients[0].most == 3


def test_one_client_a_variant_and_one_for_each_override_all_closed(bench):
    found = cases(6)
    for case_id in ("c1", "c2"):
        found[case_id] = found[case_id].model_copy(update={"model": "other"})
    run = Run(bench, plan(Variant(name="a"), Variant(name="b")), found)
    asyncio.run(run.go())
    assert len(run.clients) == 4
    assert [client.closed for client in run.clients] == [1] * 4


def test_cancelling_lets_those_in_flight_end_and_starts_no_other(bench):
    run = Run(bench, plan(concurrency=2), cases(10))

    async def scene():
        gate = asyncio.Event()
        plain = run.make

        def gated(variant):
            client = plain(variant)
            client.gate = gate
            return client

        run.given["make_client"] = gated
        task = asyncio.ensure_future(run.go())
        while not run.clients or run.clients[0].now < 2:  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0)
        run.cancel.set()
        gate.set()
        return await task

    counts = asyncio.run(scene())
    assert (counts.collected, counts.not_started) == (2, 8)
    assert len(run.records) == 2


def test_a_cancellation_is_heard_between_trials_that_never_wait(bench):
    run = Run(bench, plan(concurrency=1), cases(50), make_client=Echo)

    async def scene():
        asyncio.get_running_loop().call_soon(run.cancel.set)
        return await run.go()

    counts = asyncio.run(scene())
    assert counts.not_started > 40


def test_fail_fast_stops_after_the_first_that_did_not_complete(bench):
    run = Run(bench, plan(concurrency=1), cases(20, **{f"c{n}": "gone" for n in range(20)}), fail_fast=True)
    counts = asyncio.run(run.go())
    assert (counts.infra, counts.not_started) == (1, 19)


def test_a_trial_counts_only_after_the_sink_took_it(bench):
    order = []

    async def sink(collected):
        await asyncio.sleep(0)
        order.append(collected.record.case_id)

    counts = asyncio.run(Run(bench, plan(), cases(3), sink=sink).go())
    assert len(order) == counts.collected == 3


def test_a_sink_that_fails_ends_the_loop_with_its_error(bench):
    def sink(collected):
        raise StoreUnavailable("disk full")

    run = Run(bench, plan(), cases(10), sink=sink)
    with pytest.raises(StoreUnavailable, match="disk full"):
        asyncio.run(run.go())
    assert run.clients[0].closed == 1


def test_artifacts_that_the_sink_leaves_are_deleted(bench):
    seen = []
    case = bench.case({"f": "1"})
    run = Run(bench, plan(), {"c": case}, sink=lambda c: seen.append(c.artifacts.is_dir()))
    asyncio.run(run.go())
    assert seen == [True]
    assert bench.left() == []


def test_the_start_is_told_first(bench):
    told = []
    run = Run(bench, plan(concurrency=1), cases(2), on_start=lambda key: told.append((str(key), len(run.records))))
    asyncio.run(run.go())
    assert [count for _, count in told] == [0, 1]


def test_digests_of_whole_cases_go_into_the_records(bench):
    run = Run(bench, plan(), cases(1), case_digest={"c0": "f" * 64}.get)
    asyncio.run(run.go())
    assert run.records[0].case_digest == "f" * 64


def test_a_client_that_can_not_be_made_is_a_fault_of_the_config(bench):
    run = Run(bench, plan(Variant(name="a", client_options={"x": 1})), cases(3), make_client=None)
    with pytest.raises(ConfigError, match="unknown key"):
        asyncio.run(run.go())
