"""The coordinator's side of sharded work: bundles out, unit files back, and a source that reads them.

It trusts no runner to assemble results. Whatever came back is read unit by unit, checked, and handed to the ordinary
regrade as recorded verdicts; what did not come back is named with its shard.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from mst.config.cases import CaseFile
from mst.config.files import read_stored, write_atomic
from mst.errors import CorruptFile, DispatchTaken, RunnerError, UsageError
from mst.grade.names import pairwise_for
from mst.grade.recorded import Recorded
from mst.model.case import Case, EvalPlan
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.run import RunRecord, ShardMachine
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import DispatchPlan, ShardPlan, UnitKey, Work, unit_name
from mst.process.removal import remove_tree
from mst.runs.folder import RunFolder
from mst.shards.bundle import Bundle, BundleInput, StoredTrials, write_collect_bundle, write_grade_bundle
from mst.shards.contract import Cancel, Runner, ShardEvents, ShardOutcome, ShardSpec
from mst.shards.split import shard_of, split
from mst.shards.units import UNITS, read_unit

PLAN = "plan.json"
TAKEN_S = 30.0
"""How long a coordinator that took a dispatch's number may need to put its plan into the store."""
PACE = threading.Event()
ResultT = TypeVar("ResultT")
EarlierTrial = Callable[[TrialKey, Case], TrialGrading | None]
EarlierComparison = Callable[[ComparisonKey], ComparisonGrading | None]


@dataclass(frozen=True)
class SomeCases:
    """Some cases of a case file, read when iterated."""

    file: CaseFile
    ids: Sequence[str]

    def __iter__(self) -> Iterator[Case]:
        return (self.file.get(case_id) for case_id in self.ids)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Shards of one dispatch, ready to be sent."""

    work: Work
    count: int
    specs: Sequence[ShardSpec]

    def spec_of(self, case_id: str) -> ShardSpec | None:
        """The shard that has a case, if it was sent."""
        return self._by_index.get(shard_of(case_id, self.count))

    @cached_property
    def _by_index(self) -> dict[int, ShardSpec]:
        return {spec.index: spec for spec in self.specs}


def plan_grading(
    given: BundleInput,
    *,
    cases: CaseFile,
    case_ids: Sequence[str],
    run: RunRecord,
    stored: StoredTrials,
    folder: Path,
    earlier_trial: EarlierTrial | None = None,
    earlier_comparison: EarlierComparison | None = None,
) -> Plan:
    """Split cases, write a grade bundle for each shard below a folder, and list the units that must come back.

    Shards without anything to grade are left out.
    """
    specs = []
    for index, ids in split(case_ids, given.count).items():
        home = folder / str(index)
        digest = write_grade_bundle(
            home / "bundle",
            given,
            shard=index,
            cases=SomeCases(cases, ids),
            run=run,
            stored=stored,
            earlier_trial=earlier_trial,
            earlier_comparison=earlier_comparison,
        )
        planned = bundled_units(Bundle(home / "bundle"))
        if not planned:
            clear_work(home)
            continue
        specs.append(_spec("grade", given, index, home, digest, planned))
    return Plan(work="grade", count=given.count, specs=specs)


def plan_collecting(given: BundleInput, *, cases: CaseFile, todo: Iterable[TrialKey], folder: Path) -> Plan:
    """Split the trials still to make into shards of whole cases, and write a collect bundle for each."""
    by_case: dict[str, list[TrialKey]] = {}
    for key in todo:
        by_case.setdefault(key.case_id, []).append(key)
    specs = []
    for index, ids in split([case_id for case_id in cases.ids if case_id in by_case], given.count).items():
        keys = [key for case_id in ids for key in by_case[case_id]]
        home = folder / str(index)
        digest = write_collect_bundle(home / "bundle", given, shard=index, cases=SomeCases(cases, ids), trials=keys)
        specs.append(_spec("collect", given, index, home, digest, keys))
    return Plan(work="collect", count=given.count, specs=specs)


def _spec(work: Work, given: BundleInput, index: int, home: Path, digest: str, planned: Sequence[UnitKey]) -> ShardSpec:
    results = home / "results"
    results.mkdir(parents=True, exist_ok=True)
    return ShardSpec(
        work=work,
        run_id=given.run_id,
        eval_name=given.plan.name,
        dispatch=given.dispatch,
        index=index,
        count=given.count,
        bundle=home / "bundle",
        digest=digest,
        planned=planned,
        results=results,
        secrets=given.secrets,
    )


def save_plan(plan: Plan, folder: Path) -> None:
    """Write what was sent out, so that another process can go on with it."""
    write_atomic(_counter(folder.parent), plan.specs[0].dispatch.encode())
    write_atomic(folder / PLAN, plan_record(plan.specs).to_json())


def plan_record(specs: Sequence[ShardSpec]) -> DispatchPlan:
    """The shards of one dispatch as a document."""
    first = specs[0]
    return DispatchPlan(
        work=first.work,
        run_id=first.run_id,
        eval_name=first.eval_name,
        dispatch=first.dispatch,
        count=first.count,
        shards=[
            ShardPlan(index=spec.index, digest=spec.digest, planned=list(spec.planned), secrets=list(spec.secrets))
            for spec in specs
        ],
    )


def load_plan(folder: Path) -> Plan | None:
    """What a dispatch sent out, or None when it never came so far."""
    path = folder / PLAN
    if not path.is_file():
        return None
    record = DispatchPlan.from_json(read_stored(path), str(path))
    specs = [
        ShardSpec(
            work=record.work,
            run_id=record.run_id,
            eval_name=record.eval_name,
            dispatch=record.dispatch,
            index=shard.index,
            count=record.count,
            bundle=folder / str(shard.index) / "bundle",
            digest=shard.digest,
            planned=shard.planned,
            results=folder / str(shard.index) / "results",
            secrets=shard.secrets,
        )
        for shard in record.shards
    ]
    return Plan(work=record.work, count=record.count, specs=specs)


def run_plan(plan: Plan, work: Path, runner: Runner, events: ShardEvents, cancel: Cancel) -> Sequence[ShardOutcome]:
    """Send a saved plan out and wait for its end. A plan that could not be sent is forgotten."""
    events.planned(sum(len(spec.planned) for spec in plan.specs))
    try:
        return runner.run(plan.specs, events, cancel)
    except (UsageError, RunnerError):
        clear_work(work / plan.specs[0].dispatch)
        raise


def plans_of(folder: Path, work: Work) -> list[Plan]:
    """All dispatches of one kind of work that a run's work folder knows of, by number."""
    folders = sorted((number, path) for path in folder.glob("d*") if (number := _number(path.name)) is not None)
    plans = (load_plan(path) for _number, path in folders)
    return [plan for plan in plans if plan is not None and plan.work == work]


def next_dispatch(work: Path, recorded: Sequence[str]) -> str:
    """The number after every dispatch that the run's folder or record knows: in a store no number serves twice."""
    known = [path.name for path in work.glob("d*")] + list(recorded)
    counter = _counter(work)
    try:
        last = read_stored(counter).decode(errors="replace").strip()
    except FileNotFoundError:
        pass
    else:
        if _number(last) is None:
            raise CorruptFile(f"{counter}: names no dispatch; write the last one's name there, such as d4")
        known.append(last)
    return f"d{1 + max(filter(None, map(_number, known)), default=0)}"


def _number(dispatch: str) -> int | None:
    """Of a dispatch by its name, or None when this is no name of one."""
    return int(dispatch[1:]) if re.fullmatch(r"d[0-9]{1,9}", dispatch) else None


def _counter(work: Path) -> Path:
    """A hidden file in the run folder with its last dispatch's number, which outlives the work folder."""
    return work.with_name(".dispatch")


def planned_units(plan: EvalPlan, case: Case, variants: Sequence[str], run: RunFolder) -> list[UnitKey]:
    """The units of one case: its trials that can be graded, then its comparisons that have both sides."""
    scorable = []
    for key in plan.trial_keys(case, variants):
        state = run.trial_state(key)
        if state is not None and state.is_scorable:
            scorable.append(key)
    return _units_of(plan, case.id, scorable)


def bundled_units(bundle: Bundle) -> list[UnitKey]:
    """The units of all cases of a grade bundle. Coordinator and worker list them alike, and open no case for it."""
    plan = bundle.record.plan
    by_case = itertools.groupby(bundle.scorable(), key=lambda key: key.case_id)
    return [unit for case_id, keys in by_case for unit in _units_of(plan, case_id, list(keys))]


def _units_of(plan: EvalPlan, case_id: str, scorable: Sequence[TrialKey]) -> list[UnitKey]:
    sides = {key.variant for key in scorable}
    units: list[UnitKey] = list(scorable)
    if pairwise_for(plan) and plan.baseline in sides:
        units.extend(ComparisonKey(candidate=name, case_id=case_id) for name in plan.candidates if name in sides)
    return units


def until_sent(runner: Runner, work: Path, step: Callable[[], ResultT]) -> ResultT:
    """Do what may send a dispatch. When another coordinator sends it first, have its plan and do the same again.

    One that claimed the number and died before it sent anything leaves no plan: the next number is taken then.
    """
    while True:
        try:
            return step()
        except DispatchTaken as taken:
            until = time.monotonic() + TAKEN_S
            while load_plan(work / taken.dispatch) is None and time.monotonic() < until:
                PACE.wait(TAKEN_S / 60)
                runner.recall(work)


def recorded_source(plan: Plan, outcomes: Sequence[ShardOutcome]) -> Recorded:
    """A grading source over the unit files that came back. Reads one file when asked for one unit."""
    ended = {outcome.shard: outcome for outcome in outcomes}

    def find(key: UnitKey) -> TrialGrading | ComparisonGrading | None:
        spec = plan.spec_of(key.case_id)
        unit = read_unit(spec.results / UNITS / unit_name(key), key, spec.digest) if spec is not None else None
        return (unit.trial_grading or unit.comparison_grading) if unit is not None else None

    def missing_reason(key: UnitKey) -> str:
        spec = plan.spec_of(key.case_id)
        if spec is None:
            return "no shard was sent for this case"
        outcome = ended.get(spec.index)
        why = f" ({outcome.detail})" if outcome is not None and outcome.detail else ""
        return f"grade shard {spec.index} ended before this case was graded{why}"

    return Recorded(units=find, missing_reason=missing_reason)


def machines(outcomes: Iterable[ShardOutcome]) -> list[ShardMachine]:
    """What `run.json` says of the shards' machines, by shard."""
    return [
        ShardMachine(
            shard=outcome.shard,
            id=outcome.hello.machine if outcome.hello is not None else None,
            image=outcome.hello.image if outcome.hello is not None else None,
            mst=outcome.hello.mst if outcome.hello is not None else None,
            started_at=outcome.started_at,
            ended_at=outcome.ended_at,
            attempts=list(outcome.attempts),
            ok=outcome.ok,
            reason=outcome.detail,
        )
        for outcome in sorted(outcomes, key=lambda found: found.shard)
    ]


def refuse_too_many(runner: str, shards: int, most: int | None) -> None:
    """Refuse more shards than a runner takes.

    Raises:
        UsageError: naming the limit.
    """
    if most is not None and shards > most:
        raise UsageError(f"shards={shards}: the {runner} runner takes at most {most}; lower --runner-option shards")


def refuse_terminal(outcomes: Iterable[ShardOutcome]) -> str | None:
    """Why no shard could start at all, when that is so: a version, a preflight, a bad bundle. None otherwise."""
    ended = list(outcomes)
    if ended and all(outcome.reason in ("refused", "version") for outcome in ended):
        return ended[0].detail
    return None


def clear_work(folder: Path) -> None:
    """Remove bundles and results of shards once the run is assembled."""
    with suppress(OSError):
        remove_tree(folder)
