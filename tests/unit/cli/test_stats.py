"""`mst stats` as it is called: every vector through the command, its own example, and inputs that cannot be meant."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mst.cli.stats import command
from mst.errors import UsageError
from mst.stats import kinds

VECTORS = json.loads((Path(__file__).parents[1] / "stats" / "vectors" / "statistics.json").read_text())["vectors"]


def call(*argv, stdin=None):
    return CliRunner().invoke(command, list(argv), input=stdin)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_every_vector_is_printed_as_json(vector):
    result = call(vector["kind"], "--json", json.dumps(vector["inputs"]))
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout) == kinds.compute(vector["kind"], vector["inputs"])


def test_the_examples_of_its_help_work():
    examples = re.findall(r"^ *mst stats(.*)$", command.help or "", re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        assert call(*shlex.split(example)).exit_code == 0


def test_the_kinds_are_listed_with_their_inputs():
    printed = call().stdout
    for found in kinds.describe():
        assert found["kind"] in printed


def test_inputs_come_from_a_file_or_from_stdin(tmp_path):
    inputs = '{"only_a_pass": 9, "only_b_pass": 1}'
    (tmp_path / "inputs.json").write_text(inputs)
    there = call("mcnemar_exact", "--json", f"@{tmp_path / 'inputs.json'}")
    assert there.exit_code == 0
    assert there.stdout == call("mcnemar_exact", "--json", "-", stdin=inputs).stdout


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["mcnemar_exact"], "give its inputs"),
        (["nonesuch", "--json", "{}"], "nonesuch"),
        (["mcnemar_exact", "--json", "{"], "not JSON"),
        (["mcnemar_exact", "--json", "[1]"], "an object"),
        (["mcnemar_exact", "--json", '{"only_a_pass": 1}'], "only_b_pass"),
        (["mcnemar_exact", "--json", '{"only_a_pass": 1, "only_b_pass": 1, "c": 2}'], "c"),
        (["mcnemar_exact", "--json", '{"only_a_pass": -1, "only_b_pass": 1}'], "only_a_pass"),
        (["mean_se", "--json", '{"scores": [NaN]}'], "not finite"),
        (["mean_se", "--json", "[" * 100_000], "nested too deeply"),
        (["mcnemar_exact", "--json", "@missing.json"], "cannot be read"),
        (["mcnemar_exact", "--json", "@binary"], "cannot be read"),
    ],
)
def test_a_mistake_is_a_usage_error_that_names_it(tmp_path, monkeypatch, argv, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    error = call(*argv).exception
    assert isinstance(error, UsageError), error
    assert says in str(error)
