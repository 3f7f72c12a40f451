"""`mst schema`: the JSON Schema of a file."""

from __future__ import annotations

import json
from typing import Any, Literal

import click

MODELS = {
    "eval-config": ("mst.config.evalconfig:EvalConfig",),
    "case": ("mst.config.caseconfig:CaseWritten",),
    "run": ("mst.model.run:RunRecord",),
    "trial": ("mst.model.trial:TrialRecord",),
    "score": ("mst.model.score:ScoreRecord",),
    "preference": ("mst.model.score:PreferenceRecord",),
    "results": ("mst.model.results:ResultsRecord",),
    "summary": ("mst.model.summary:SummaryRecord",),
    "manifest": ("mst.model.manifest:RunManifest", "mst.model.manifest:ShardManifest"),
    "bundle": ("mst.model.shard:BundleRecord",),
    "envelope": ("mst.model.fleet:Envelope",),
    "outcome": ("mst.model.printed.outcome:OutcomeDocument",),
    "plan": ("mst.model.printed.validation:PlanDocument",),
    "validation": ("mst.model.printed.validation:ValidationDocument",),
    "comparison": ("mst.model.printed.outcome:ComparisonDocument",),
    "diagnosis": ("mst.model.printed.diagnosis:DiagnosisDocument",),
    "grade-sets": ("mst.model.printed.gradesets:GradeSetsDocument",),
    "runs": ("mst.model.printed.runs:RunsDocument",),
    "identities": ("mst.model.printed.identities:IdentitiesDocument",),
    "judges": ("mst.model.printed.validation:JudgesDocument",),
    "assessment": ("mst.runs.assessing:AssessmentDocument",),
    "in-flight": ("mst.model.printed.fleet:InFlightDocument",),
    "stored-runs": ("mst.model.printed.store:StoredRunsDocument",),
    "store-fetched": ("mst.model.printed.store:FetchedDocument",),
    "store-pushed": ("mst.model.printed.store:PushedDocument",),
    "store-verified": ("mst.model.printed.store:VerifiedDocument",),
    "store-cleared": ("mst.model.printed.store:StoreClearedDocument",),
    "fleet-check": ("mst.cli.fleet_check:Probe",),
    "fleet-status": ("mst.fleet.overview:Overview",),
    "fleet-scale": ("mst.model.printed.fleet:ScaleLine",),
    "fleet-limits": ("mst.model.printed.fleet:FleetLimitsDocument",),
    "broker-cleared": ("mst.model.printed.fleet:BrokerClearedDocument",),
    "image": ("mst.runners.images:BuiltImage",),
    "finding": ("mst.cli.doctor:Finding",),
    "progress": ("mst.model.printed.progress:ProgressLine", "mst.model.printed.progress:NoteLine"),
}
PRINTED = {
    "attach": ("outcome", "progress"),
    "compare": ("comparison",),
    "diagnose": ("diagnosis",),
    "diff-identity": ("identities",),
    "doctor": ("finding",),
    "fleet check": ("fleet-check",),
    "fleet gc": ("broker-cleared",),
    "fleet limits": ("fleet-limits",),
    "fleet scale": ("fleet-scale",),
    "fleet status": ("fleet-status",),
    "grade": ("outcome", "progress"),
    "images build": ("image",),
    "judges": ("judges",),
    "judges assess": ("assessment",),
    "ls": ("runs",),
    "ps": ("in-flight",),
    "run": ("outcome", "plan", "progress"),
    "show": ("outcome", "grade-sets"),
    "store fetch": ("store-fetched",),
    "store gc": ("store-cleared",),
    "store ls": ("stored-runs",),
    "store push": ("store-pushed",),
    "store verify": ("store-verified",),
    "validate": ("validation",),
}
"""What each command prints with `--json`; `doctor` prints a list of its findings."""
WRITTEN = frozenset({"eval-config", "case"})
"""What people write has snake_case keys; what the program stores has camelCase ones."""


@click.command(name="schema", epilog="Example: mst schema eval-config > eval-config.schema.json")
@click.argument("name", metavar="KIND", type=click.Choice(list(MODELS)))
def command(name: str) -> None:
    """Print the JSON Schema of what you write, of a file that mst stores or sends, or of what --json prints.

    \b
    written       eval-config, case
    stored, sent  run, trial, score, preference, results, summary, manifest, bundle, envelope
    --json of     run, grade, attach, show: outcome, plan (--dry-run), grade-sets (--grade-sets), progress (stderr)
                  validate: validation   compare: comparison   diagnose: diagnosis   diff-identity: identities
                  ls: runs   ps: in-flight   judges: judges   judges assess: assessment   doctor: finding (a list)
                  store ls, fetch, push, verify, gc: stored-runs, store-fetched, store-pushed, store-verified,
                  store-cleared   images build: image
                  fleet check, status, scale, limits, gc: fleet-check, fleet-status, fleet-scale, fleet-limits,
                  broker-cleared
    """
    click.echo(json.dumps(schema_of(name), indent=2, ensure_ascii=False))


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one kind of file."""
    import importlib

    from pydantic import TypeAdapter

    from mst.model.described import DescribedSchema

    targets = [target.partition(":") for target in MODELS[name]]
    kinds = [getattr(importlib.import_module(module), attribute) for module, _, attribute in targets]
    adapters: list[tuple[int, Literal["validation"], TypeAdapter[Any]]] = [
        (number, "validation", TypeAdapter(kind)) for number, kind in enumerate(kinds)
    ]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    by_alias = name not in WRITTEN
    if len(adapters) == 1:
        return {**head, **adapters[0][2].json_schema(by_alias=by_alias, schema_generator=DescribedSchema)}
    refs, definitions = TypeAdapter.json_schemas(adapters, by_alias=by_alias, schema_generator=DescribedSchema)
    return {**head, "title": name, "anyOf": list(refs.values()), **definitions}
