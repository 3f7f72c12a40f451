"""Collecting a run, in this process or in shards, into its folder: each trial is durable before it counts."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from mst.collect.context import RunContext
from mst.collect.loop import client_of, collect
from mst.collect.order import trial_order
from mst.collect.trial import Collected
from mst.config.cases import CaseFile
from mst.config.files import FileSource, hash_file
from mst.config.registry import plugin_versions
from mst.errors import DigestMismatch, NothingSent, ObjectMissing, SecretMissing, UsageError
from mst.model.case import EvalPlan
from mst.model.keys import TrialKey
from mst.model.run import RunRecord
from mst.model.shard import Unit, unit_name
from mst.model.trial import TrialRecord
from mst.process.scratch import scratch_folder
from mst.process.stop import Stop
from mst.providers.rates import rates_of
from mst.runs.attempts import write_trial
from mst.runs.folder import RunFolder
from mst.shards.asking import AskedLimits
from mst.shards.bundle import Bundle, BundleInput
from mst.shards.contract import Cancel, Runner, ShardEvents, ShardOutcome, ShardSpec, UnitDone
from mst.shards.coordinate import Plan, next_dispatch, plan_collecting, plans_of, run_plan, save_plan, until_sent
from mst.shards.limiter import LocalLimiter
from mst.shards.local_budget import note, spent_collecting
from mst.shards.spend import Budget, LocalSpend
from mst.shards.trial_turns import TrialTurns, asking_here
from mst.shards.turns import Turns
from mst.shards.units import ARTIFACTS, UNITS, each_finished, read_unit

_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True)
class CollectRequest:
    """What to collect.

    Attributes:
        cases, files: as resolved.
        variants: names in the plan's order.
        secrets: values for the programs under test, by name.
        lacking: the error for secrets without a value; raised only when something must be sent with them.
        on_trial: told of each trial once it is in the folder.
    """

    folder: RunFolder
    run: RunRecord
    plan: EvalPlan
    cases: CaseFile
    files: FileSource
    variants: Sequence[str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: Sequence[str] = ()
    lacking: SecretMissing | None = None
    fail_fast: bool = False
    on_trial: Callable[[TrialRecord], None] = lambda _record: None


def preflight(plan: EvalPlan, variants: Iterable[str]) -> None:
    """See that every variant's program can be driven from this machine. Starts nothing.

    Raises:
        UsageError: all faults at once, each with its variant.
    """
    faults = [f"variant {name}: {fault}" for name in variants for fault in client_of(plan.variant(name)).preflight()]
    if faults:
        raise UsageError("\n".join(faults))


def todo(request: CollectRequest) -> Iterator[TrialKey]:
    """The trials still to make, in the run's seeded order: never collected, or broken down by no fault of theirs."""
    counts = request.cases.trials_of(request.plan)
    fresh = not request.folder.has_trials()
    for key in trial_order(counts, request.variants, counts.__getitem__, request.run.order.seed):
        state = None if fresh else request.folder.trial_state(key)
        if state is None or state.infrastructure_error:
            yield key


def collect_here(request: CollectRequest, cancel: Cancel) -> str | None:
    """Collect in this process, the plan's `concurrency` trials at a time, within its budget and rates.

    Returns:
        Why not all trials were started, when the budget is used up; what was collected before counts too.
    """
    limiter = LocalLimiter()
    try:
        # not below the run folder: a program under test would find the user's repository from its workspace
        with scratch_folder("collect") as scratch:
            return cancel.run(_collect_here(request, cancel, scratch, limiter))
    finally:
        limiter.close()


async def _collect_here(request: CollectRequest, cancel: Cancel, scratch: Path, limiter: LocalLimiter) -> str | None:
    plan = request.plan
    spend, budget = LocalSpend(), Budget.of(plan.budget)
    if budget is not None:
        note(spent_collecting(request.folder, request.variants, request.cases, plan), spend)
    turns = Turns(limiter, rates_of(plan.rate_limits), spend=spend, budget=budget, attempt="here")
    asking = asking_here(turns, has_budget=budget is not None)
    own = TrialTurns(asking, plan, request.cases)
    stop = _UntilRefused(turns, cancel)

    async def start(key: TrialKey) -> None:
        # one that is refused makes `stop` true, and does not start for it
        await own.start(key)

    def sink(collected: Collected) -> None:
        write_trial(request.folder, [(attempt.record, attempt.artifacts) for attempt in collected.attempts])
        own.end(key_of(collected.record), [attempt.record for attempt in collected.attempts])
        request.on_trial(collected.record)

    context = RunContext.of(
        plan,
        run_id=request.run.run_id,
        files=request.files,
        secrets=request.secrets,
        scratch_root=scratch,
        limits=AskedLimits(asking),
    )
    try:
        await collect(
            plan,
            request.cases,
            todo(request),
            context,
            sink=sink,
            cancel=stop,
            on_start=start if budget is not None or plan.rate_limits else None,
            fail_fast=request.fail_fast,
            case_digest=request.cases.digest,
        )
    finally:
        turns.close()
    return turns.refused or None


class _UntilRefused(Stop):
    """Stops when it is cancelled, and when a trial was refused."""

    def __init__(self, turns: Turns, cancel: Stop) -> None:
        self._turns = turns
        self._cancel = cancel

    def is_set(self) -> bool:
        """See `Stop.is_set`."""
        return bool(self._turns.refused) or self._cancel.is_set()


def key_of(record: TrialRecord) -> TrialKey:
    """The key of a trial's record."""
    return TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)


def collect_in_shards(
    request: CollectRequest, runner: Runner, shards: int, events: ShardEvents, cancel: Cancel
) -> Sequence[ShardOutcome]:
    """Collect in shards. Trials that earlier dispatches finished are taken first."""
    for plan in plans_of(request.folder.work, "collect"):
        _take_back(request, plan, runner)
    return _send(request, runner, shards, events, cancel)


def attach_collecting(
    request: CollectRequest, runner: Runner, shards: int, events: ShardEvents, cancel: Cancel
) -> Sequence[ShardOutcome]:
    """Go on with collecting whose coordinator is gone: follow its last dispatch, or send the rest as the next one.

    The eval's config need not be on this machine: what the last dispatch sent is sent again. Following needs no
    secrets, sending does.

    Raises:
        NothingSent: no dispatch was ever sent.
        SecretMissing: something must be sent, and the request lacks a secret for it.
    """

    def step() -> Sequence[ShardOutcome]:
        *before, last = _sent(request)
        for plan in before:
            _take_back(request, plan, runner)
        outcomes = runner.follow(last.specs, _Keeping(request, last, events, stop := FirstFault(cancel)), stop)
        if outcomes is not None:
            _keep_finished(request, last)
            return outcomes
        _take_back(request, last, runner)
        if next(todo(request), None) is None:
            return []
        if request.lacking is not None:
            raise request.lacking
        return _send(_as_sent(request, last, runner), runner, shards, events, cancel)

    runner.recall(request.folder.work)
    return until_sent(runner, request.folder.work, step)


def _sent(request: CollectRequest) -> list[Plan]:
    plans = plans_of(request.folder.work, "collect")
    if not plans:
        run = request.run
        raise NothingSent(
            f"{run.run_id}: nothing was sent out yet; collect it with: "
            + shlex.join(["mst", "run", run.config_path or "CONFIG", "--resume", run.run_id])
        )
    return plans


def _take_back(request: CollectRequest, plan: Plan, runner: Runner) -> None:
    runner.recover(plan.specs)
    _keep_finished(request, plan)


def _as_sent(request: CollectRequest, plan: Plan, runner: Runner) -> CollectRequest:
    """The same with the eval plan and the files that a dispatch's bundles hold: a run's record hides credentials."""
    runner.bring_bundles(plan.specs)
    bundles = [Bundle(spec.bundle) for spec in plan.specs]
    return replace(request, plan=bundles[0].record.plan, files=_BundledFiles(bundles))


class _BundledFiles:
    """The files of several bundles."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self._bundles = bundles

    def locate(self, sha256: str) -> Path:
        """See `FileSource.locate`."""
        for bundle in self._bundles:
            with suppress(ObjectMissing):
                return bundle.files.locate(sha256)
        raise ObjectMissing(f"no file with digest {sha256} was sent with this run")


def _send(
    request: CollectRequest, runner: Runner, shards: int, events: ShardEvents, cancel: Cancel
) -> Sequence[ShardOutcome]:
    dispatch = next_dispatch(request.folder.work, [])
    given = BundleInput(
        plan=request.plan,
        datasets=request.run.datasets,
        run_id=request.run.run_id,
        files=request.files,
        seed=request.run.order.seed,
        count=shards,
        variants=request.variants,
        plugins=plugin_versions(request.plan.plugins),
        secrets=request.secret_names,
        secret_values=list(request.secrets.values()),
        dispatch=dispatch,
    )
    plan = plan_collecting(given, cases=request.cases, todo=todo(request), folder=request.folder.work / dispatch)
    if not plan.specs:
        return []
    save_plan(plan, request.folder.work / dispatch)
    stop = FirstFault(cancel)
    outcomes = run_plan(plan, request.folder.work, runner, _Keeping(request, plan, events, stop), stop)
    _keep_finished(request, plan)
    return outcomes


def _keep_finished(request: CollectRequest, plan: Plan) -> None:
    """Take the trials that nobody told of one by one, as on a fleet."""
    for spec in plan.specs:
        for unit in each_finished(spec.results, spec.planned, spec.digest):
            _keep(request, spec, unit)


class FirstFault(Cancel):
    """Stops collecting at the first fault (--fail-fast), and when the run itself is stopped; never the run."""

    def __init__(self, run: Cancel) -> None:
        super().__init__()
        self._run = run

    def is_set(self) -> bool:
        """See `Cancel`."""
        if self._run.is_set() and not super().is_set():
            self.set(self._run.reason, self._run.grace_s)
        return super().is_set()

    def wait(self, timeout_s: float) -> bool:
        """See `Cancel`."""
        until = time.monotonic() + timeout_s
        while not self.is_set() and (left := until - time.monotonic()) > 0:
            super().wait(min(left, _LOOK_EVERY_S))
        return self.is_set()


class _Keeping:
    """Moves each trial into the run folder when its unit is back, and passes the news on."""

    def __init__(self, request: CollectRequest, plan: Plan, events: ShardEvents, stop: FirstFault) -> None:
        self._request = request
        self._stop = stop
        self._plan = plan
        self._tell = events.unit
        self.state = events.state
        self.tokens = events.tokens
        self.count = events.count
        self.note = events.note
        self.cost = events.cost
        self.planned = events.planned

    def unit(self, done: UnitDone) -> None:
        """See `ShardEvents.unit`."""
        spec = self._plan.spec_of(done.key.case_id)
        assert spec is not None
        unit = read_unit(spec.results / UNITS / unit_name(done.key), done.key, spec.digest)
        if unit is not None:
            _keep(self._request, spec, unit)
            self._tell(done)
            if self._request.fail_fast and (unit.collected or {}).get("status") != "completed":
                self._stop.set(f"--fail-fast: {done.key} did not complete")


def _keep(request: CollectRequest, spec: ShardSpec, unit: Unit) -> None:
    """Put a collected trial into the run folder. A record that is there already and sound stays."""
    record = TrialRecord.model_validate(unit.collected)
    key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
    present = request.folder.trial(key)
    if present is not None and not present.infrastructure_error:
        return
    case_digest = request.cases.digest(record.case_id)
    attempts = [TrialRecord.model_validate(before) for before in unit.superseded or []] + [record]
    whole = [attempt.model_copy(update={"case_digest": case_digest}) for attempt in attempts]
    write_trial(request.folder, [(attempt, _artifacts(spec, attempt)) for attempt in whole])
    request.on_trial(whole[-1])


def _artifacts(spec: ShardSpec, record: TrialRecord) -> Path | None:
    if record.diff is None and not record.artifact_files:
        return None
    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=spec.results))
    for file in record.artifact_files:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        source = spec.results / ARTIFACTS / file.sha256
        if not source.is_file():
            raise DigestMismatch(f"{source}: an artifact of {record.variant}/{record.case_id} did not come back")
        shutil.copyfile(source, target)
        if hash_file(target) != file.sha256:
            raise DigestMismatch(f"{source}: came back with other bytes than the worker announced")
        if file.executable:
            target.chmod(0o755)
    return folder
