"""What `--json` prints after `run`, `grade` and `show`: one document with the result and what the gate made of it."""

from __future__ import annotations

from pathlib import Path

from mst.model.printed.outcome import GateRecord, OutcomeDocument
from mst.model.run import RunRecord
from mst.model.summary import SummaryRecord
from mst.report.gates import GateOutcome, exit_code, outcome_codes
from mst.report.words import warnings


def summary_document(run: RunRecord, summary: SummaryRecord, *, path: Path, gate: GateOutcome) -> OutcomeDocument:
    """The outcome of a run.

    Args:
        run: the run's record.
        summary: its numbers and verdicts.
        path: the run folder.
        gate: what the gate made of the summary.
    """
    report = path / "report" / "index.html"
    return OutcomeDocument(
        run_id=run.run_id,
        eval_name=run.eval_name,
        graded_from=run.graded_from,
        path=str(path),
        report=str(report) if report.is_file() else None,
        phases=run.phases,
        partial=run.partial,
        graded=summary.graded is not False,
        baseline=summary.baseline,
        variants=summary.variants,
        verdicts=summary.verdicts,
        grader_errors=summary.grader_errors,
        error_policy=summary.error_policy,
        health=summary.health,
        looks=summary.looks,
        warnings=warnings(run, summary),
        gate=gate_record(gate),
        exit_code=exit_code(outcome_codes(run.phases, gate)),
    )


def gate_record(gate: GateOutcome) -> GateRecord:
    """The gate's answer as it is printed."""
    return GateRecord(conditions=list(gate.conditions), failed=gate.failed, reasons=list(gate.reasons))
