"""Collecting in a shard: the ordinary loop, with each trial written to a unit file and announced."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from mst.collect.context import RunContext
from mst.collect.loop import client_of, collect
from mst.collect.order import trial_order
from mst.collect.trial import Collected, new_attempt_id
from mst.errors import UsageError
from mst.model.keys import TrialKey
from mst.model.shard import Started, TrialDone, unit_name
from mst.model.trial import TrialRecord
from mst.shards.asking import AskedLimits
from mst.shards.bundle import Bundle
from mst.shards.job import Job
from mst.shards.poison import CRASHED_TWICE, read_poisoned
from mst.shards.trial_turns import TrialTurns
from mst.shards.units import ARTIFACTS, finished_units


async def collect_units(job: Job) -> None:
    """Make a bundle's trials, `concurrency` at a time, in the run's seeded order.

    Trials with a valid file in the results folder are kept. Clients are preflighted before the first trial.

    Raises:
        UsageError: a client cannot work on this machine; nothing was collected.
    """
    bundle = job.bundle
    _preflight(bundle)
    planned = list(planned_trials(bundle))
    kept = finished_units(job.results, planned, job.digest)
    poisoned = read_poisoned(job.results)
    sink = _Sink(job)
    for key in planned:
        if key not in kept and unit_name(key) in poisoned:
            sink.store(Collected(record=_given_up(job, key), artifacts=None), key)
    todo = [key for key in planned if key not in kept and unit_name(key) not in poisoned]
    context = RunContext.of(
        bundle.record.plan,
        run_id=bundle.record.run_id,
        files=bundle.files,
        secrets=job.secrets,
        redactor=job.redactor,
        scratch_root=job.scratch,
        limits=AskedLimits(job.asking),
    )
    counts = await collect(
        bundle.record.plan,
        bundle.cases,
        todo,
        context,
        sink=sink,
        cancel=job.cancel,
        on_start=sink.start,
        case_digest=bundle.cases.digest,
    )
    job.tally.cancelled += counts.not_started


def planned_trials(bundle: Bundle) -> Iterator[TrialKey]:
    """The bundle's trials in the run's order."""
    listed = set(bundle.record.trials) if bundle.record.trials is not None else None
    plan = bundle.record.plan
    counts = bundle.cases.trials_of(plan)
    for key in trial_order(counts, bundle.variants, counts.__getitem__, bundle.record.seed):
        if listed is None or key in listed:
            yield key


def _preflight(bundle: Bundle) -> None:
    faults = [
        f"{name}: {fault}"
        for name in bundle.variants
        for fault in client_of(bundle.record.plan.variant(name)).preflight()
    ]
    if faults:
        raise UsageError("\n".join(faults))


class _Sink:
    """Makes a trial durable in the results folder, then announces it."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._writer = job.unit_writer()
        self._turns = TrialTurns(job.asking, job.bundle.record.plan, job.bundle.cases)

    async def start(self, key: TrialKey) -> None:
        """Wait for a trial's turn: this is not the program's time."""
        if await self._turns.start(key):
            self._job.send(Started(key=key))
        else:
            self._job.cancel.set()

    def __call__(self, collected: Collected) -> None:
        record = collected.record
        key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
        self._turns.end(key, [attempt.record for attempt in collected.attempts])
        self.store(collected, key)

    def store(self, collected: Collected, key: TrialKey) -> None:
        record = collected.record
        files = sorted({name for attempt in collected.attempts for name in self._keep_artifacts(attempt)})
        path = self._writer.collected(record, key, [attempt.record for attempt in collected.superseded])
        infra = record.infrastructure_error
        self._job.tally.infra += infra
        self._job.tally.collected += not infra
        self._job.send_soon(TrialDone(key=key, status="infra" if infra else "collected", path=path, files=files))

    def _keep_artifacts(self, attempt: Collected) -> list[str]:
        record, artifacts = attempt.record, attempt.artifacts
        if artifacts is None:
            return []
        folder = self._job.results / ARTIFACTS
        folder.mkdir(parents=True, exist_ok=True)
        names = []
        for file in record.artifact_files:
            target = folder / file.sha256
            if not target.exists():
                # the two folders may be on different disks, and a file under its digest must be whole
                moving = target.with_name(f".{file.sha256}.tmp")
                shutil.move(artifacts / file.path, moving)
                moving.replace(target)
            names.append(f"{ARTIFACTS}/{file.sha256}")
        return names


def _given_up(job: Job, key: TrialKey) -> TrialRecord:
    case = job.bundle.cases[key.case_id]
    return TrialRecord(
        run_id=job.bundle.record.run_id,
        variant=key.variant,
        case_id=key.case_id,
        dataset_name=case.dataset,
        trial=key.trial,
        attempt_id=new_attempt_id(),
        status="error",
        duration_ms=0,
        infrastructure_error=True,
        error=CRASHED_TWICE,
        error_kind="worker_lost",
    )
