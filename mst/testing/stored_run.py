"""Stored runs for tests, made by the product's own collecting and grading in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from mst.config.resolve import load_eval
from mst.model.run import Phases
from mst.runners.local import LocalRunner
from mst.runs.folder import RunFolder
from mst.runs.inputs import GradeInputs, grade_inputs, write_inputs
from mst.runs.locate import new_run
from mst.runs.record import environment, new_record
from mst.shards.collect_run import CollectRequest, collect_here
from mst.shards.contract import Cancel, ShardState, UnitDone
from mst.shards.regrade import grade
from mst.shards.request import GradeRequest
from mst.shards.under_way import Graded, GradingContext


class Events:
    """What a runner tells, kept; the secrets that it may ask for."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self.units: list[UnitDone] = []
        self.states: list[ShardState] = []
        self.notes: list[str] = []
        self.costs: list[float] = []
        self.expected: int | None = None
        self.asked: list[str] = []
        self._secrets = dict(secrets or {})

    def unit(self, done: UnitDone) -> None:
        """See `ShardEvents.unit`."""
        self.units.append(done)

    def state(self, state: ShardState) -> None:
        """See `ShardEvents.state`."""
        self.states.append(state)

    def count(self, shard: int, done: int) -> None:
        """See `ShardEvents.count`."""

    def planned(self, units: int) -> None:
        """See `ShardEvents.planned`."""
        self.expected = units

    def cost(self, usd: float) -> None:
        """See `ShardEvents.cost`."""
        self.costs.append(usd)

    def note(self, text: str) -> None:
        """See `ShardEvents.note`."""
        self.notes.append(text)

    def tokens(self, shard: int, names: Sequence[str]) -> Mapping[str, str]:
        """See `ShardEvents.tokens`."""
        self.asked.extend(names)
        return {name: self._secrets[name] for name in names if name in self._secrets}


def write_echo_eval(folder: Path, *, cases: Mapping[str, dict[str, Any]] | int = 4, **config: Any) -> Path:
    """Write an eval of the `echo` client and return the path of its config: two variants, one assertion.

    Args:
        folder: made if it is not there.
        cases: what each case adds to its input, by ID, or how many plain ones there are.
        config: added to the config, or in place of what it has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    named = {f"case-{number}": {} for number in range(cases)} if isinstance(cases, int) else cases
    listed = [{"id": case_id, "input": f"say {case_id}", **more} for case_id, more in named.items()]
    (folder / "cases.yaml").write_text(yaml.safe_dump(listed, sort_keys=False))
    given = {
        "name": "echoes",
        "datasets": [{"file": "cases.yaml"}],
        "client": "echo",
        "baseline": "plain",
        "variants": [
            {"name": "plain", "input_template": "{{input}}"},
            {"name": "polite", "input_template": "please {{input}}"},
        ],
        "assertions": [{"contains_text": "please"}],
        **config,
    }
    path = folder / "eval.yaml"
    path.write_text(yaml.safe_dump(given, sort_keys=False))
    return path


def collect_run(config: Path, root: Path, *, seed: int = 7) -> RunFolder:
    """Collect an eval into a new run below a results root; nothing is graded."""
    with load_eval(config) as resolved:
        folder = new_run(root, resolved.plan.name, datetime.now(UTC))
        run = new_record(
            folder.run_id,
            resolved.plan,
            cases=resolved.cases,
            datasets=resolved.datasets,
            seed=seed,
            environment=environment("local", 1, None),
            selection=resolved.selection,
            config_path=config,
        )
        inputs = GradeInputs(
            plan=resolved.plan, cases=resolved.cases, datasets=resolved.datasets, files=resolved.files, notes=()
        )
        with folder.locked():
            write_inputs(folder, inputs)
            folder.write_run(run)
            variants = [variant.name for variant in resolved.plan.variants]
            request = CollectRequest(
                folder=folder,
                run=run,
                plan=resolved.plan,
                cases=resolved.cases,
                files=resolved.files,
                variants=variants,
            )
            collect_here(request, Cancel())
            folder.write_run(run.model_copy(update={"phases": Phases(collect="complete", grade="skipped")}))
    return folder


def grade_request(source: RunFolder, scratch: Path, **given: Any) -> GradeRequest:
    """What grading a stored run needs, with the config that its record names."""
    scratch.mkdir(parents=True, exist_ok=True)
    inputs = grade_inputs(source.run(), source, given.pop("config", None), scratch)
    return GradeRequest(
        source=source,
        inputs=inputs,
        variants=[variant.name for variant in inputs.plan.variants],
        **{"runner_name": "local", **given},
    )


def grade_here(source: RunFolder, scratch: Path) -> Graded:
    """Grade a stored run in this process."""
    context = GradingContext(runner=LocalRunner(), events=Events(), cancel=Cancel())
    return grade(grade_request(source, scratch), context)
