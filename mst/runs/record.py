"""Making a run's record: what was asked, what it was resolved to, and where it ran."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mst import __version__
from mst.config.cases import CaseFile
from mst.config.recorded import conceal
from mst.grade.names import pairwise_for
from mst.model.case import Case, DatasetRecord, EvalPlan, GraderSpec, Variant
from mst.model.run import (
    Environment,
    GraderRecord,
    Grading,
    GradingRunner,
    MstVersion,
    Phases,
    RunRecord,
    Selection,
    TrialOrder,
    VariantRecord,
)


def now_iso() -> str:
    """The present in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def environment(runner: str, shards: int, options: Mapping[str, Any] | None, keep: str | None = None) -> Environment:
    """This machine and the runner that collects."""
    return Environment(
        name=runner,
        shards=shards,
        keep=keep if keep in ("failed", "always") else None,
        options=dict(options) if options else None,
        node=f"python {platform.python_version()}",
        platform=sys.platform,
        ci=os.environ.get("CI", "").lower() in ("1", "true", "yes"),
    )


def new_record(
    run_id: str,
    plan: EvalPlan,
    *,
    cases: CaseFile,
    datasets: Sequence[DatasetRecord],
    seed: int,
    environment: Environment,
    selection: Selection | None,
    config_path: Path | None,
) -> RunRecord:
    """The record of a run that is about to start: nothing collected, nothing graded."""
    key = secrets.token_hex(16)
    graders = list(grader_records(plan, cases))
    return RunRecord(
        run_id=run_id,
        eval_name=plan.name,
        config_id=plan.config_id,
        content_hash=plan.content_hash,
        created_at=now_iso(),
        mst=MstVersion(version=__version__),
        baseline=plan.baseline,
        variants=[variant_record(variant, key) for variant in plan.variants],
        datasets=list(datasets),
        judges=[grader for grader in graders if not grader.level.endswith("assertion")],
        graders=graders,
        partial=selection is not None,
        selection=selection,
        redact_stored_responses=plan.redact_stored_responses,
        environment=environment,
        phases=Phases(collect="partial", grade="skipped"),
        order=TrialOrder(seed=seed),
        config_path=str(config_path) if config_path is not None else None,
        plan=conceal_plan(plan, key),
        cases_hash=cases_identity(cases),
        hmac_key=key,
    )


def regrade_record(
    run_id: str,
    source: RunRecord,
    plan: EvalPlan,
    *,
    cases: CaseFile,
    datasets: Sequence[DatasetRecord],
    runner: GradingRunner,
    selection: Selection | None,
) -> RunRecord:
    """The record of a regrade: what was collected stays as its source says, what grades is new."""
    graders = list(grader_records(plan, cases))
    return source.model_copy(
        update={
            "run_id": run_id,
            "created_at": now_iso(),
            "finished_at": None,
            "mst": MstVersion(version=__version__),
            "graded_from": source.graded_from or source.run_id,
            "config_id": plan.config_id,
            "content_hash": plan.content_hash,
            "baseline": plan.baseline,
            "variants": [variant_record(variant, source.hmac_key) for variant in plan.variants],
            "datasets": list(datasets),
            "judges": [grader for grader in graders if not grader.level.endswith("assertion")],
            "graders": graders,
            "partial": source.partial or selection is not None,
            "selection": selection or source.selection,
            "phases": Phases(collect=source.phases.collect, grade="partial"),
            "grading": Grading(runner=runner),
            "plan": conceal_plan(plan, source.hmac_key),
            "cases_hash": cases_identity(cases),
        }
    )


def cases_identity(cases: CaseFile) -> str:
    """SHA-256 over the cases in order, their judges left out: those have identities of their own."""
    found = hashlib.sha256()
    for case_id in cases.ids:
        # without judges to leave out, a case's identity is its digest
        judged = cases.has_judges(case_id)
        found.update((case_identity(cases.get(case_id)) if judged else cases.digest(case_id)).encode())
    return found.hexdigest()


def case_identity(case: Case) -> str:
    """A case's digest, its judges left out: those have identities of their own."""
    return case.model_copy(update={"judges": [], "judge_reps": None}).digest


def conceal_plan(plan: EvalPlan, key: str) -> EvalPlan:
    """The plan with credential-like values of client options, servers and environments replaced by HMACs."""
    variants = [
        variant.model_copy(
            update={
                "client_options": conceal(variant.client_options, key),
                "servers": conceal(variant.servers, key),
                "env": conceal(variant.env, key),
            }
        )
        for variant in plan.variants
    ]
    return plan.model_copy(update={"variants": variants, "config": conceal(plan.config, key)})


def variant_record(variant: Variant, key: str) -> VariantRecord:
    """A variant as the run's record lists it."""
    return VariantRecord(
        name=variant.name,
        description=variant.description,
        servers=sorted(variant.servers),
        client=variant.client,
        model=variant.model,
        client_options=conceal(variant.client_options, key) or None,
        tools=variant.tools or None,
        input_template=variant.input_template,
        judges=[judge.name or judge.type for judge in variant.judges],
    )


def grader_records(plan: EvalPlan, cases: CaseFile) -> Iterator[GraderRecord]:
    """Graders with their identities: the config's, the variants', and each distinct one that cases bring.

    A case's own assertions are part of its digest and not listed: their number grows with the data.
    """
    for spec in plan.assertions:
        yield _grader_record(spec, "config assertion", spec.name)
    seen: set[tuple[str, str]] = set()
    for variant in plan.variants:
        for spec in variant.judges:
            yield _grader_record(spec, f"variant:{variant.name}", spec.name)
    for case in cases.equipped():
        for spec in case.judges:
            identity = spec.identity().hash
            if (spec.type, identity) not in seen:
                seen.add((spec.type, identity))
                yield _grader_record(spec, "case", spec.name)
    for grader in pairwise_for(plan):
        yield _grader_record(grader.spec, "pairwise", grader.name)


def _grader_record(spec: GraderSpec, level: str, name: str | None) -> GraderRecord:
    identity = spec.identity()
    return GraderRecord(
        type=spec.type,
        level=level,
        name=name,
        options_hash=identity.options_hash,
        identity=identity.hash,
        plugin=identity.plugin,
        plugin_version=identity.plugin_version,
        model=identity.model,
        prompt_hash=identity.prompt_hash,
        version=identity.version,
    )
