"""One pass over a run's results: the index of the case grid, details in chunks, groups of cases, reasons of failure.

Memory grows by a small row for each case; transcripts are read one at a time and let go.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mst.model.keys import TrialKey
from mst.model.results import CaseResult
from mst.model.summary import SummaryRecord
from mst.report.chunks import ChunkWriter
from mst.report.details import case_detail, comparison_detail, trial_detail
from mst.report.failures import Failures
from mst.report.text import case_label, one_line, variant_label
from mst.report.view import OutcomeWord, RunView, outcome, trial_results

CODES: dict[OutcomeWord, str] = {
    "passed": "p",
    "failed": "f",
    "infrastructure": "i",
    "missing": "m",
    "grading error": "g",
    "ungraded": "u",
    "incomplete": "n",
}
"""A trial's outcome in one letter of the index; `report.js` knows the same letters."""

GROUP_TAGS = ("regression", "held-out")


@dataclass(slots=True)
class CaseRow:
    """One case in the grid. Cells and comparisons are keyed by the variant's number."""

    number: int
    case_id: str
    title: str
    tags: tuple[str, ...]
    cells: dict[int, tuple[str, int, bool | None]] = field(default_factory=dict)
    """Outcome letters of the trials, the chunk with their details, whether the case passed."""
    comparisons: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    """For each judge: the chunk with its finding, and the finding in a word."""


@dataclass(slots=True)
class Rows:
    """What one pass found."""

    cases: dict[str, CaseRow]
    failures: Failures
    groups: dict[str, dict[str, Counter[str]]]
    """Group of cases -> variant -> outcome of the case (`passed`, `failed`, `unscored`)."""


def scan(view: RunView, variants: list[str], chunks: ChunkWriter) -> Rows:
    """Read all results, write the details into chunks, and keep what the page needs at once.

    Args:
        view: the run.
        variants: names in the order in which the page shows them.
        chunks: takes the details.
    """
    numbers = {name: number for number, name in enumerate(variants)}
    rows = Rows(cases={}, failures=Failures(), groups={})
    for case in view.case_results():
        if case.variant in numbers:
            _add_case(rows, view, case, numbers[case.variant], chunks)
    for record in view.preferences():
        row, number = rows.cases.get(record.case_id), numbers.get(record.variant)
        if row is None or number is None:
            continue
        found = row.comparisons.setdefault(number, [])
        detail = comparison_detail(record)
        chunk = chunks.add(f"c{row.number}.{number}.{len(found)}", detail)
        found.append((chunk, str(detail.get("preference", "error"))))
    return rows


def _add_case(rows: Rows, view: RunView, case: CaseResult, variant: int, chunks: ChunkWriter) -> None:
    tags = tuple(case.tags or case.request.tags)
    row = rows.cases.get(case.id)
    if row is None:
        row = CaseRow(len(rows.cases), case.id, one_line(case.request.description, limit=120), tags)
        rows.cases[case.id] = row
    details, letters = [], []
    for trial in trial_results(case):
        record = view.trial(TrialKey(variant=case.variant, case_id=case.id, trial=trial.trial))
        details.append(trial_detail(case, trial, record))
        letters.append(CODES[outcome(trial)])
        rows.failures.add(case, trial)
    chunk = chunks.add(f"t{row.number}.{variant}", {"case": case_detail(case), "trials": details})
    row.cells[variant] = ("".join(letters), chunk, case.passed)
    _group(rows, case, tags)


def _group(rows: Rows, case: CaseResult, tags: tuple[str, ...]) -> None:
    group = next((tag for tag in reversed(GROUP_TAGS) if tag in tags), "capability")
    word = "unscored" if case.passed is None else "passed" if case.passed else "failed"
    rows.groups.setdefault(group, {}).setdefault(case.variant, Counter())[word] += 1


def index(rows: Rows, summary: SummaryRecord, variants: list[str]) -> dict[str, Any]:
    """The grid as the page's script reads it, flips first and regressions on top of them."""
    ranks = _ranks(summary)
    ordered = sorted(rows.cases.values(), key=lambda row: (ranks.get(row.case_id, (9, ""))[0], row.number))
    return {
        "variants": [variant_label(name) for name in variants],
        "baseline": variants.index(summary.baseline) if summary.baseline in variants else -1,
        "cases": [_index_row(row, ranks) for row in ordered],
    }


def _index_row(row: CaseRow, ranks: dict[str, tuple[int, str]]) -> dict[str, Any]:
    return {
        "n": row.number,
        "id": case_label(row.case_id),
        "title": row.title,
        "tags": [one_line(tag, limit=60) for tag in row.tags],
        "flip": ranks.get(row.case_id, (9, ""))[1],
        "cells": [[number, *cell] for number, cell in sorted(row.cells.items())],
        "comparisons": [[number, *map(list, found)] for number, found in sorted(row.comparisons.items())],
    }


def _ranks(summary: SummaryRecord) -> dict[str, tuple[int, str]]:
    """Where a case stands in the grid, by the strongest flip of any candidate."""
    ranks: dict[str, tuple[int, str]] = {}
    for rank, word, field_name in ((2, "up", "flips_up"), (1, "down", "flips_down"), (0, "regression", "regressions")):
        for verdict in summary.verdicts:
            for case_id in getattr(verdict, field_name):
                ranks[case_id] = (rank, word)
    return ranks
