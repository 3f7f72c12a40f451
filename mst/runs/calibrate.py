"""Verdicts of a run's judges beside labels that people gave: do they agree, and what would the true rates be?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from mst.errors import UsageError
from mst.grade.names import graders_for
from mst.model.base import Model
from mst.model.keys import TrialKey
from mst.runs.folder import RunFolder
from mst.stats.agreement import CorrectedRate, cohen_kappa, judge_corrected_rate

MAX_LABELS_BYTES = 64 * 1024**2
FEW = 30
GOOD_KAPPA = 0.6
TRUE_WORDS, FALSE_WORDS = {"true", "1", "yes", "pass"}, {"false", "0", "no", "fail"}


class Label(Model):
    """What a person says of one trial."""

    model_config = ConfigDict(extra="ignore")

    variant: str
    case: str
    trial: int = 0
    passed: bool = Field(alias="pass")
    grader: str | None = None
    """The judge that the label is about; every judge unless given."""


class Calibration(Model):
    """One judge beside the labels. None where there is nothing to divide by.

    Attributes:
        n: labelled trials with a verdict; `missing` have none.
        tpr, tnr: shares of the labelled passes that it passes, and of the fails that it fails.
        kappa: Cohen's.
        rates: by variant: the rate as judged, and corrected by Rogan and Gladen.
        finding: what is wrong with it; None when nothing was found.
    """

    grader: str
    n: int
    missing: int
    agree: int
    kappa: float | None
    tpr: float | None
    tnr: float | None
    rates: dict[str, dict[str, Any]]
    finding: str | None = None


def read_labels(path: Path) -> list[Label]:
    """Labels from CSV (with a header) or JSON lines: `variant`, `case`, `trial`, `pass`, `grader`.

    Raises:
        UsageError: it cannot be read; with the line.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if len(data) > MAX_LABELS_BYTES:
        raise UsageError(f"{path}: more than {MAX_LABELS_BYTES} bytes")
    rows = _csv(text) if path.suffix.lower() == ".csv" else _lines(text, path)
    labels = []
    for number, row in rows:
        try:
            labels.append(Label.model_validate(row))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = ".".join(map(str, fault["loc"]))
            raise UsageError(f"{path}:{number}: {where}: {fault['msg']}") from error
    if not labels:
        raise UsageError(f"{path}: no label in it; write lines with variant, case, trial and pass")
    return labels


def _csv(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        found: dict[str, Any] = {key: value for key, value in row.items() if key and value not in (None, "")}
        word = str(found.get("pass", "")).strip().lower()
        if word in TRUE_WORDS | FALSE_WORDS:
            found["pass"] = word in TRUE_WORDS
        yield number, found


def _lines(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: no JSON: {error}") from error
        if not isinstance(found, dict):
            raise UsageError(f"{path}:{number}: a label is an object with variant, case, trial and pass")
        yield number, found


def calibrate(folder: RunFolder, labels: list[Label], judges: list[str] | None = None) -> list[Calibration]:
    """Every judge of a grading beside labels. Nothing is asked.

    Args:
        folder: the grading.
        labels: of its trials.
        judges: names of judges; all unless given.

    Raises:
        UsageError: no label is of a trial of this run.
    """
    plan, cases = folder.run().plan, folder.cases()
    known = {variant.name: variant for variant in plan.variants}
    pairs: dict[str, list[tuple[bool, bool]]] = {}
    missing: dict[str, int] = {}
    for label in labels:
        if label.case not in cases or label.variant not in known:
            continue
        for grader in graders_for(plan, known[label.variant], cases.get(label.case)):
            if grader.role != "judge" or not _meant(grader.name, label.grader, judges):
                continue
            key = TrialKey(variant=label.variant, case_id=label.case, trial=label.trial)
            record = folder.score(grader.name, key)
            pairs.setdefault(grader.name, [])
            if record is None or not record.score.counts:
                missing[grader.name] = missing.get(grader.name, 0) + 1
            else:
                pairs[grader.name].append((label.passed, record.score.passed))
    if not pairs:
        raise UsageError(f"{folder.run_id}: no label is of a trial that one of its judges scored")
    return [_calibration(folder, name, found, missing.get(name, 0)) for name, found in pairs.items()]


def _meant(name: str, labelled: str | None, judges: list[str] | None) -> bool:
    plain = name.removeprefix("judge.")
    return (labelled is None or labelled in (name, plain)) and (judges is None or name in judges or plain in judges)


def _calibration(folder: RunFolder, name: str, found: list[tuple[bool, bool]], missing: int) -> Calibration:
    positive = [said for label, said in found if label]
    negative = [said for label, said in found if not label]
    tpr = sum(positive) / len(positive) if positive else None
    tnr = sum(not said for said in negative) / len(negative) if negative else None
    kappa = cohen_kappa([label for label, _ in found], [said for _, said in found]).kappa
    rates = {}
    for variant, (passed, judged) in _judged(folder, name).items():
        corrected = None
        if tpr is not None and tnr is not None and judged:
            corrected = judge_corrected_rate(
                passed / judged, judged, tpr=tpr, n_pos=len(positive), tnr=tnr, n_neg=len(negative)
            )
        rates[variant] = {"judged": passed / judged if judged else None, "n": judged, **_corrected(corrected)}
    return Calibration(
        grader=name,
        n=len(found),
        missing=missing,
        agree=sum(label == said for label, said in found),
        kappa=kappa,
        tpr=tpr,
        tnr=tnr,
        rates=rates,
        finding=_finding(found, kappa, tpr, tnr),
    )


def _judged(folder: RunFolder, name: str) -> dict[str, tuple[int, int]]:
    """Passed and judged trials of one judge by variant."""
    counts = {variant.name: (0, 0) for variant in folder.run().variants}
    for result in folder.case_results():
        for trial in result.trial_results or []:
            score = trial.scores.get(name)
            if score is not None and score.counts:
                passed, judged = counts[result.variant]
                counts[result.variant] = (passed + score.passed, judged + 1)
    return counts


def _corrected(found: CorrectedRate | None) -> dict[str, Any]:
    if found is None:
        return {"corrected": None, "reason": "labels of both kinds are needed"}
    reason = {"reason": found.reason} if found.reason else {}
    return {"corrected": found.rate, "se": found.se, **reason}


def _finding(found: list[tuple[bool, bool]], kappa: float | None, tpr: float | None, tnr: float | None) -> str | None:
    said = [verdict for _, verdict in found]
    if tpr is None or tnr is None:
        return None
    if all(said) or not any(said):
        word = "passes" if all(said) else "fails"
        return (
            f"always {word}: all {len(said)} labelled answers, of which {sum(label for label, _ in found)} should pass"
        )
    if kappa is not None and kappa < GOOD_KAPPA:
        few = f"; {len(found)} labels are few" if len(found) < FEW else ""
        rates = f"passes {tpr:.0%} of the good and {1 - tnr:.0%} of the bad"
        return f"agrees little with the labels: kappa {kappa:.2f}, {rates}{few}"
    return None
