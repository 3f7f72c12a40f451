from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from mst.cli.schema import MODELS, command, schema_of
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
