"""The checks behind `mst validate`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from mst.cli.grading import open_runner, parse_options
from mst.cli.interrupts import cancelled_by_interrupt
from mst.cli.preflight import checks_faults, client_faults, grader_faults
from mst.cli.progress import Progress, say
from mst.config.recorded import conceal, new_key
from mst.config.registry import lookup, plugin_versions
from mst.config.resolve import ResolvedEval, load_eval
from mst.config.secrets import names_needed, secrets_for, short_values
from mst.config.variants import Difference
from mst.errors import SecretMissing
from mst.grade.names import graders_for
from mst.model.printed.validation import CheckedCase, DifferenceRecord, ValidationDocument
from mst.model.shard import Work
from mst.runs.casecheck import RUN_ID, CaseCheck, StandIn, check_cases
from mst.runs.folder import RunFolder
from mst.shards.casecheck import Shards, check_cases_in_shards, empty_folder
from mst.shards.contract import Cancel, RunnerContext
from mst.shards.coordinate import refuse_too_many


@dataclass
class Validation:
    """What was found out.

    Attributes:
        trials: that a full run makes.
        plugins: versions by namespace.
        faults: one line each: secrets that are missing, programs that cannot be driven, checks that are no Python,
            judges that cannot judge.
        warnings: of the config, and about cases that nothing grades.
        checks: by stand-in, in the order of the cases.
    """

    resolved: ResolvedEval
    trials: int
    plugins: Mapping[str, str]
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    checks: dict[str, list[CaseCheck]] = field(default_factory=dict)
    interrupted: bool = False

    def exit_code(self, *, strict: bool) -> int:
        """0: sound. 1: a case is faulty. 2: the eval cannot run as it is. 130: interrupted."""
        if self.interrupted:
            return 130
        if self.faults:
            return 2
        return 1 if any(_is_faulty(check, strict=strict) for checks in self.checks.values() for check in checks) else 0

    def document(self, *, strict: bool) -> ValidationDocument:
        """Everything, to print."""
        plan = self.resolved.plan
        return ValidationDocument(
            name=plan.name,
            config_id=plan.config_id,
            content_hash=plan.content_hash,
            plugins=dict(self.plugins),
            variants=[variant.name for variant in plan.variants],
            baseline=plan.baseline,
            datasets=list(self.resolved.datasets),
            cases=len(self.resolved.cases),
            trials=self.trials,
            differences=[
                DifferenceRecord(field=difference.field, values=concealed(difference))
                for difference in self.resolved.differences
            ],
            warnings=self.warnings,
            faults=self.faults,
            checks={
                stand_in: [
                    CheckedCase(
                        case_id=check.case_id,
                        verdict=check.verdict,
                        detail=check.detail,
                        faulty=_is_faulty(check, strict=strict),
                    )
                    for check in checks
                ]
                for stand_in, checks in self.checks.items()
            },
        )


def concealed(difference: Difference) -> dict[str, Any]:
    """What each variant has, by name; what looks like a credential as a hash that tells values apart."""
    key = new_key()
    return {
        name: conceal({difference.field: value}, key)[difference.field] for name, value in difference.values.items()
    }


def _is_faulty(check: CaseCheck, *, strict: bool) -> bool:
    return check.is_faulty or (strict and check.verdict == "deferred")


@dataclass(frozen=True, kw_only=True)
class Where:
    """The runner that checks cases, with its options as given."""

    runner: str = "local"
    options: Mapping[str, str] = field(default_factory=dict)


HERE = Where()


def validate(config: Path, stand_ins: Sequence[str], secrets_file: Path | None, where: Where = HERE) -> Validation:
    """Check an eval, and its cases with the stand-ins named. The result's `resolved` is closed already.

    Raises:
        ConfigError: faults of the config, its datasets or its files.
        UsageError: of the runner's options.
    """
    kind = lookup("runners", where.runner)
    options = parse_options(where.runner, kind, where.options)
    refuse_too_many(where.runner, getattr(options, "shards", 1), kind.max_shards)
    with load_eval(config) as resolved:
        plan = resolved.plan
        trials = sum(resolved.cases.trials_of(plan).values()) * len(plan.variants)
        found = Validation(
            resolved=resolved,
            trials=trials,
            plugins=plugin_versions(plan.plugins),
            warnings=list(resolved.warnings),
        )
        secrets = _secrets(found, secrets_file, local=kind.reads_environment)
        found.faults += client_faults(resolved)
        found.faults += checks_faults(resolved)
        found.warnings += _ungraded(resolved)
        if secrets is None:
            return found
        found.faults += asyncio.run(grader_faults(resolved, secrets))
        if found.faults:
            return found
        cancel = Cancel()
        with cancelled_by_interrupt(cancel):
            for name in stand_ins:
                stand_in = cast("StandIn", name)
                if where.runner == "local":
                    found.checks[name] = cancel.run(check_cases(resolved, stand_in, secrets=secrets, cancel=cancel))
                else:
                    shards = _shards(where.runner, kind, options, resolved, secrets, secrets_file)
                    found.checks[name] = _in_shards(resolved, stand_in, shards, cancel)
        found.interrupted = cancel.is_set()
        return found


def _shards(
    name: str, kind: Any, options: Any, resolved: ResolvedEval, secrets: Mapping[str, str], secrets_file: Path | None
) -> Shards:
    def context(folder: RunFolder, work: Work) -> RunnerContext:
        return RunnerContext(
            run_id=folder.run_id,
            eval_name=resolved.plan.name,
            work=work,
            scratch=folder.work,
            results_root=folder.path.parent.parent,
            environment=dict(os.environ),
            secrets_file=secrets_file,
            say=say,
        )

    return Shards(
        name=name,
        count=getattr(options, "shards", 1),
        open=lambda given, work: open_runner(kind, options, given, work),
        context=context,
        secrets=secrets,
        secret_names=names_needed(resolved.plan, resolved.cases.equipped(), "grade"),
    )


def _in_shards(resolved: ResolvedEval, stand_in: StandIn, shards: Shards, cancel: Cancel) -> list[CaseCheck]:
    with tempfile.TemporaryDirectory(prefix="mst-check-") as scratch:
        folder = empty_folder(Path(scratch), RUN_ID)

        def watching(work: Work) -> AbstractContextManager[Progress]:
            return Progress(f"{'tried' if work == 'collect' else 'graded'} ({stand_in})", None, shards.secrets)

        return check_cases_in_shards(resolved, stand_in, shards, folder=folder, events=watching, cancel=cancel)


def _secrets(found: Validation, secrets_file: Path | None, *, local: bool) -> dict[str, str] | None:
    values: dict[str, str] = {}
    plan, cases = found.resolved.plan, found.resolved.cases
    missing: list[str] = []
    for work in ("collect", "grade"):
        try:
            values |= secrets_for(plan, cases, work, secrets_file, local=local, places=found.resolved.secret_places)
        except SecretMissing as error:
            missing += str(error).splitlines()
    found.faults += dict.fromkeys(missing)
    found.warnings += short_values(values)
    return None if missing else values


def _ungraded(resolved: ResolvedEval) -> list[str]:
    plan = resolved.plan
    bare = [
        case.id for case in resolved.cases if not any(graders_for(plan, variant, case) for variant in plan.variants)
    ]
    # An eval that only compares is one; a bare case among graded ones was forgotten.
    if not bare or (plan.pairwise_judges and len(bare) == len(resolved.cases)):
        return []
    shown = ", ".join(bare[:5]) + (f" and {len(bare) - 5} more" if len(bare) > 5 else "")
    return [
        f"nothing grades {len(bare)} of {len(resolved.cases)} cases ({shown}): give them assertions, checks or a judge"
    ]
