"""A run folder of ours carries every field that the reference's readers expect, under its name.

The lists are the fields of its run format that it always writes; optional ones are left out. Traces are transcripts
now, and `node` carries the Python version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mst.cli import cli

EVAL = """
name: fields
datasets: [cases.jsonl]
client: echo
trials: 2
variants:
  - {name: old}
  - {name: new, input_template: "better {{input}}"}
assertions: [{contains_text: better}]
judges: [{name: tone, command: {argv: ["{{python}}", judge.py], files: [judge.py]}}]
pairwise_judges: [{name: longer, command: {argv: ["{{python}}", pair.py], files: [pair.py]}}]
"""
JUDGE = "import json, sys; json.load(sys.stdin); print(json.dumps({'score': 0.9, 'reasoning': 'fine'}))"
PAIR = "import json, sys; json.load(sys.stdin); print(json.dumps({'preference': 'tie'}))"

RUN = [
    "format", "kind", "runId", "evalName", "configId", "contentHash", "createdAt", "finishedAt", "mst.version",
    "variants.0.name", "datasets.0.name", "datasets.0.caseCount", "datasets.0.contentHash", "judges.0.type",
    "judges.0.level", "judges.0.optionsHash", "partial", "redactStoredResponses", "environment.name",
    "environment.shards", "environment.node", "environment.platform", "environment.ci", "phases.collect",
    "phases.grade", "grading.runner.name", "grading.runner.shards", "baseline",
]  # fmt: skip
TRIAL = [
    "format", "kind", "runId", "variant", "caseId", "datasetName", "trial", "durationMs", "infrastructureError",
    "transcript.events", "transcript.finalText", "transcriptEvidence",
]  # fmt: skip
SCORE = ["format", "kind", "runId", "grader", "variant", "caseId", "trial", "score.pass", "score.details"]
PREFERENCE = [
    "format", "kind", "runId", "judge", "variant", "baseline", "caseId", "preference.judge", "preference.preference",
]  # fmt: skip
RESULTS = [
    "format", "kind", "runId", "cases.0.id", "cases.0.variant", "cases.0.datasetName", "cases.0.source",
    "cases.0.pass", "cases.0.scores", "cases.0.durationMs", "cases.0.passRate", "cases.0.passRateCI.lower",
    "cases.0.passRateCI.upper", "cases.0.infrastructureErrorRate", "cases.0.infrastructureErrorCount",
    "cases.0.trialResults.0.pass", "cases.0.trialResults.0.scores", "cases.0.trialResults.0.durationMs",
    *(f"cases.0.request.{name}" for name in (
        "description", "toolVariantId", "trials", "passThreshold", "tags", "assertions", "judges", "input", "client",
    )),
]  # fmt: skip
METRICS = [
    "passed_rate", "trial_pass_rate", "tool_count_mean", "mcp_call_count_mean", "builtin_event_count_mean",
    "tool_search_hit_rate", "input_tokens_mean", "output_tokens_mean", "cost_usd_mean", "duration_s_mean",
    "judge_pass_rate", "judge_score",
]  # fmt: skip
SUMMARY = [
    "format", "kind", "runId", "configId", "contentHash", "configName", "timestamp", "durationMs",
    "variants.0.name", "variants.0.servers", "variants.0.result.total", "variants.0.result.passed",
    "variants.0.result.failed", "variants.0.result.durationMs", "metrics.total", "metrics.passed", "metrics.failed",
    "metrics.passRate", "telemetry.cases", "telemetry.toolCalls", "telemetry.failedCases",
    "variantDeltas.new.baseline", "variantDeltas.new.passRate", "variantDeltas.new.passRateDelta",
    "variantDeltas.new.metricDeltas",
    *(f"variants.0.metrics.{name}" for name in METRICS),
    *(f"variants.1.pairwise.0.{name}" for name in ("baseline", "candidate", "unmatched", "cases")),
    *(f"variants.1.pairwise.0.summary.{name}" for name in (
        "compared", "candidateWins", "baselineWins", "ties", "skipped", "errors", "candidateWinRate", "consistency",
    )),
]  # fmt: skip
LATEST = ["format", "kind", "runId", "createdAt", "path"]


@pytest.fixture(scope="module")
def regrade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two variants, and a regrade of it; the regrade's folder."""
    root = tmp_path_factory.mktemp("fields")
    (root / "eval.yaml").write_text(EVAL)
    (root / "judge.py").write_text(JUDGE)
    (root / "pair.py").write_text(PAIR)
    (root / "cases.jsonl").write_text("".join(json.dumps({"id": f"c{n}", "input": "x"}) + "\n" for n in range(2)))
    results = str(root / "results")
    run = CliRunner().invoke(cli, ["run", str(root / "eval.yaml"), "--output-dir", results])
    assert run.exit_code == 0, run.output
    grade = CliRunner().invoke(cli, ["grade", "latest", "--output-dir", results])
    assert grade.exit_code == 0, grade.output
    return next((root / "results" / "fields" / "runs").glob("*.g2"))


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def _missing(document: Any, fields: list[str]) -> Iterator[str]:
    for field in fields:
        found = document
        for part in field.split("."):
            key = int(part) if part.isdigit() and isinstance(found, list) else part
            try:
                found = found[key]
            except (KeyError, IndexError, TypeError):
                yield field
                break


def _first(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[0]


@pytest.mark.parametrize(
    ("pattern", "fields"),
    [
        ("run.json", RUN),
        ("results.json", RESULTS),
        ("summary.json", SUMMARY),
        ("scores/contains_text/*/*/*.json", SCORE),
        ("scores/judge.tone/*/*/*.json", [*SCORE, "score.score", "score.reasoning"]),
        ("scores/pairwise.longer/*/*.json", PREFERENCE),
    ],
)
def test_a_regrade_has_the_fields_of_the_reference(regrade: Path, pattern: str, fields: list[str]) -> None:
    assert list(_missing(_read(_first(regrade, pattern)), fields)) == []


def test_a_trial_record_has_the_fields_of_the_reference(regrade: Path) -> None:
    source = regrade.with_name(regrade.name.removesuffix(".g2"))
    assert list(_missing(_read(_first(source, "transcripts/*/*/*.json")), TRIAL)) == []


def test_latest_points_to_the_regrade_with_the_fields_of_the_reference(regrade: Path) -> None:
    latest = _read(regrade.parent.parent / "latest.json")
    assert list(_missing(latest, LATEST)) == []
    assert latest["path"] == f"runs/{regrade.name}"


def test_node_names_the_python_version(regrade: Path) -> None:
    assert _read(regrade / "run.json")["environment"]["node"].startswith("python 3.")


def test_a_regrade_names_its_source(regrade: Path) -> None:
    assert _read(regrade / "run.json")["gradedFrom"] == regrade.name.removesuffix(".g2")
