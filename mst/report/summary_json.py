"""What `--json` prints after `run`, `grade` and `show`: one document with the result and what the gate made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mst.model.base import Model
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord
from mst.model.trial import RUN_FORMAT
from mst.report.gates import GateOutcome, exit_code, outcome_codes
from mst.report.words import warnings


def summary_document(run: RunRecord, summary: SummaryRecord, *, path: Path, gate: GateOutcome) -> dict[str, Any]:
    """The outcome of a run as plain JSON types. Unlike stored files it spells out nulls: unknown is visible.

    Args:
        run: the run's record.
        summary: its numbers and verdicts.
        path: the run folder.
        gate: what the gate made of the summary.
    """
    report = path / "report" / "index.html"
    return {
        "format": RUN_FORMAT,
        "kind": "outcome",
        "runId": run.run_id,
        "evalName": run.eval_name,
        "gradedFrom": run.graded_from,
        "path": str(path),
        "report": str(report) if report.is_file() else None,
        "phases": _spelled_out(run.phases),
        "partial": run.partial,
        "graded": summary.graded is not False,
        "baseline": summary.baseline,
        "variants": [_spelled_out(variant) for variant in summary.variants],
        "verdicts": [_spelled_out(verdict) for verdict in summary.verdicts],
        "graderErrors": summary.grader_errors,
        "errorPolicy": {name: _spelled_out(policy) for name, policy in summary.error_policy.items()},
        "health": [_spelled_out(finding) for finding in summary.health],
        "looks": summary.looks,
        "warnings": warnings(run, summary),
        "gate": {"conditions": list(gate.conditions), "failed": gate.failed, "reasons": list(gate.reasons)},
        "exitCode": exit_code(outcome_codes(run.phases, gate)),
    }


def _spelled_out(model: Model) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)
