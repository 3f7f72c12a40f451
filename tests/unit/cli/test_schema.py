from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from mst.cli import cli
from mst.cli.progress import Progress
from mst.cli.schema import MODELS, PRINTED, command, schema_of
from mst.model.case import Case
from mst.model.trial import TrialRecord

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("name", list(MODELS))
def test_every_schema_is_a_valid_schema_and_is_printed(name):
    result = CliRunner().invoke(command, [name])
    assert result.exit_code == 0
    Draft202012Validator.check_schema(json.loads(result.stdout))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/eval.yaml")), ids=lambda path: path.parent.name)
def test_the_examples_are_valid_against_the_schema_of_eval_configs(path):
    validator = Draft202012Validator(schema_of("eval-config"))
    validator.validate(yaml.safe_load(path.read_text()))
    assert not validator.is_valid({"name": "x", "datasets": ["a"], "asertions": []})
    assert not validator.is_valid({"name": "x"})


def test_the_cases_of_the_examples_are_valid_against_the_schema_of_cases():
    validator = Draft202012Validator(schema_of("case"))
    for path in EXAMPLES.glob("*/cases/*/case.yaml"):
        validator.validate(yaml.safe_load(path.read_text()))
    for case in yaml.safe_load((EXAMPLES / "hello" / "cases.yaml").read_text()):
        validator.validate(case)


def test_what_is_stored_is_valid_against_its_schema_in_camel_case():
    record = TrialRecord(
        run_id="20260101T000000Z-abcdef", variant="v", case_id="c", dataset_name="d", trial=0, duration_ms=1.0
    )
    validator = Draft202012Validator(schema_of("trial"))
    validator.validate(record.to_dict())
    assert not validator.is_valid({**record.to_dict(), "kind": "run"})
    assert not validator.is_valid(Case(id="c", dataset="d").to_dict())


def test_an_unknown_name_lists_the_known_ones():
    result = CliRunner().invoke(command, ["evalconfig"])
    assert result.exit_code == 2
    assert "eval-config" in result.stderr


def commands_with_json(group, path=()):
    """Each command that takes `--json`, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if any("--json" in parameter.opts for parameter in found.params):
            yield " ".join((*path, name))
        if isinstance(found, click.Group):
            yield from commands_with_json(found, (*path, name))


def test_every_document_that_a_command_prints_with_json_has_a_schema():
    figures = {"stats"}  # its keys are those of the kind, see docs/reference/statistics.md
    assert set(commands_with_json(cli)) == set(PRINTED) | figures
    assert {name for names in PRINTED.values() for name in names} <= set(MODELS)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("judges", ["judges", "--json"]), ("plan", ["run", "hello/eval.yaml", "--dry-run", "--no-probe", "--json"]),
     ("validation", ["validate", "hello/eval.yaml", "--json"])],
)  # fmt: skip
def test_what_is_printed_is_as_its_schema_says(name, arguments, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    Draft202012Validator(schema_of(name)).validate(json.loads(result.stdout))


def test_findings_and_lines_of_progress_are_as_their_schemas_say(capsys):
    for finding in json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout):
        Draft202012Validator(schema_of("finding")).validate(finding)
    with Progress("graded", 2, {}, as_json=True) as progress:
        progress.one_more(passed=True, problem=False, cost_usd=0.5)
        progress.note("the broker is slow")
    lines = capsys.readouterr().err.splitlines()
    assert lines
    for line in lines:
        Draft202012Validator(schema_of("progress")).validate(json.loads(line))


def test_the_help_names_every_kind():
    said = CliRunner().invoke(cli, ["schema", "--help"]).stdout
    assert [name for name in MODELS if name not in said] == []
