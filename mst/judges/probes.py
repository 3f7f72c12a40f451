"""Answers that are made to find out what a judge goes by: the same content, longer, signed, or gone. Pure."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mst.judges.contract import Subject
from mst.model.transcript import Transcript

Probe = Literal["plain", "longer", "own_name", "other_name", "empty"]

PADDING = (
    "To sum up the above once more: the points have been set out in order, each of them has been given the room that "
    "it needs, and the answer as a whole stands as it was given. "
)
"""Says nothing about any task."""
OTHER_NAME = "another assistant"
LEAST_PADDING = 400


def probe(subject: Subject, kind: Probe, *, own_name: str) -> Subject:
    """A trial whose answer is changed as the probe says; everything else stays.

    Args:
        subject: the trial.
        kind: `plain`: unchanged; `longer`: twice as long, with words that say nothing; `own_name`, `other_name`: signed
            by the judge's own model, or by another; `empty`: no answer, and no diff and no files either.
        own_name: of the judge's model.
    """
    text = subject.text
    if kind == "plain":
        return _answering(subject, text)
    if kind == "longer":
        more = max(len(text), LEAST_PADDING)
        return _answering(subject, f"{text}\n\n{PADDING * (more // len(PADDING) + 1)}".rstrip())
    if kind == "empty":
        gone = _answering(subject, "")
        record = gone.record.model_copy(update={"diff": None, "artifact_files": []})
        return dataclasses.replace(gone, record=record, digest=f"{subject.digest}:empty")
    name = own_name if kind == "own_name" else OTHER_NAME
    return _answering(subject, f"{text}\n\n(This answer was written by {name}.)")


def _answering(subject: Subject, text: str) -> Subject:
    transcript = (subject.record.transcript or Transcript()).model_copy(update={"final_text": text})
    return dataclasses.replace(subject, record=subject.record.model_copy(update={"transcript": transcript}))
