"""`mst schema`: the JSON Schema of a file."""

from __future__ import annotations

import json
from typing import Any

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
}
WRITTEN = frozenset({"eval-config", "case"})
"""What people write has snake_case keys; what the program stores has camelCase ones."""


@click.command(name="schema", epilog="Example: mst schema eval-config > eval-config.schema.json")
@click.argument("name", type=click.Choice(list(MODELS)))
def command(name: str) -> None:
    """Print the JSON Schema of an eval config, a case, or a file that mst stores or sends."""
    click.echo(json.dumps(schema_of(name), indent=2, ensure_ascii=False))


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one kind of file."""
    import importlib

    from pydantic.json_schema import models_json_schema

    models = []
    for target in MODELS[name]:
        module, _, attribute = target.partition(":")
        models.append(getattr(importlib.import_module(module), attribute))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    by_alias = name not in WRITTEN
    if len(models) == 1:
        return {**head, **models[0].model_json_schema(by_alias=by_alias)}
    refs, definitions = models_json_schema([(model, "validation") for model in models], by_alias=by_alias)
    return {**head, "title": name, "anyOf": [refs[model, "validation"] for model in models], **definitions}
