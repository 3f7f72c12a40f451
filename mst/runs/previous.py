"""The run before this one, and what moved since: rates, and cases that pass now and did not, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field, ValidationError

from mst.errors import CorruptFile, FormatError
from mst.model.base import Model, first_fault
from mst.model.keys import source_stem
from mst.model.run import RunRecord
from mst.model.summary import PreviousRun, SummaryRecord
from mst.runs.folder import RunFolder
from mst.runs.latest import read_latest

Passes = dict[str, dict[str, bool | None]]
"""Variant -> case ID -> whether the case passed; None without a scored trial."""


class _CasePassed(Model):
    """The three fields of a case's result that are looked at; the others are passed over while reading."""

    id: str
    variant: str
    passed: bool | None = Field(default=None, alias="pass")


def previous_run(folder: RunFolder, run: RunRecord) -> tuple[RunFolder, SummaryRecord] | None:
    """The eval's latest run that is not another grading of the same trials, if it can be read."""
    try:
        latest = read_latest(folder.path.parent.parent / "latest.json")
        if latest is None or source_stem(latest.run_id) == source_stem(run.run_id):
            return None
        found = RunFolder(folder.path.parent.parent / latest.path)
        return (found, found.summary()) if (found.path / "summary.json").is_file() else None
    except (CorruptFile, FormatError):
        return None


def change_since(
    folder: RunFolder, summary_now: SummaryRecord, earlier: RunFolder, before: SummaryRecord
) -> PreviousRun:
    """What moved since an earlier run. Cases are held together by ID, also when the config changed.

    Args:
        folder: this run's, with its results written.
        summary_now: this run's numbers.
        earlier: the run before it. Without results that can be read only rates are compared.
        before: that run's numbers.
    """
    then = {variant.name: variant for variant in before.variants}
    flips = _case_changes(earlier, folder)
    variants = {
        variant.name: {
            "passRateDelta": _minus(variant.case_pass_rate, then[variant.name].case_pass_rate),
            "trialPassRateDelta": _minus(variant.pass_rate, then[variant.name].pass_rate),
            **flips.get(variant.name, {}),
        }
        for variant in summary_now.variants
        if variant.name in then
    }
    return PreviousRun(
        run_id=before.run_id,
        timestamp=before.timestamp,
        same_config=summary_now.content_hash == before.content_hash,
        pass_rate=before.metrics.pass_rate,
        pass_rate_delta=_minus(summary_now.metrics.pass_rate, before.metrics.pass_rate),
        variants=variants,
    )


def _case_changes(earlier: RunFolder, folder: RunFolder) -> dict[str, dict[str, Any]]:
    """By variant that both have: cases that regressed, improved, were added or removed, in the order of the results."""
    try:
        before, now = _passes(earlier), _passes(folder)
    except (CorruptFile, FormatError):
        return {}
    return {name: _changes(before[name], now[name]) for name in now if name in before}


def _changes(before: dict[str, bool | None], now: dict[str, bool | None]) -> dict[str, list[str]]:
    return {
        "regressed": [case for case, passed in now.items() if passed is False and before.get(case) is True],
        "improved": [case for case, passed in now.items() if passed is True and before.get(case) is False],
        "added": [case for case in now if case not in before],
        "removed": [case for case in before if case not in now],
    }


def _passes(folder: RunFolder) -> Passes:
    found: Passes = {}
    for case in _read(folder):
        found.setdefault(case.variant, {})[case.id] = case.passed
    return found


def _read(folder: RunFolder) -> Iterator[_CasePassed]:
    for place, line in folder.result_lines():
        try:
            yield _CasePassed.model_validate_json(line)
        except ValidationError as error:
            raise CorruptFile(f"{place}: {first_fault(error)}") from error


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
