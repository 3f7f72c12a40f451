"""Who gave which verdict of a grading, in `authors.jsonl`; and dropping what a machine or an attempt gave.

The file is no part of the equality of gradings: it says where one ran, as `grading.runner` in `run.json` does. What was
graded in one process has no lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from mst.config.files import read_stored, write_atomic
from mst.errors import CorruptFile, UsageError
from mst.model.author import AUTHOR_LINE, GivenBy, SettledDispatches
from mst.model.base import first_fault
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.shard import Unit
from mst.runs.folder import RunFolder

AUTHORS = "authors.jsonl"
SHOWN = 8
"""How many known machines or attempts an error names."""

Verdict = tuple[TrialKey | ComparisonKey, str]


@dataclass(frozen=True)
class Distrusted:
    """One `--distrust`: whose verdicts are dropped."""

    kind: Literal["machine", "attempt"]
    value: str

    def gave(self, line: GivenBy) -> bool:
        """Whether this one gave the verdicts of a line."""
        return (line.machine if self.kind == "machine" else line.attempt) == self.value


def read_distrusted(words: Sequence[str]) -> list[Distrusted]:
    """Read the words of `--distrust`.

    Raises:
        UsageError: one is not `machine=ID` or `attempt=ID`.
    """
    found = []
    for word in words:
        kind, _, value = word.partition("=")
        if kind not in ("machine", "attempt") or not value:
            raise UsageError(f"--distrust {word}: not known; write machine=ID or attempt=ID")
        found.append(Distrusted("machine" if kind == "machine" else "attempt", value))
    return found


def note_authors(folder: RunFolder, units: Iterable[Unit]) -> None:
    """Say who gave the verdicts of units that came back. Before they are written into the folder: idempotent then.

    Atomic. A verdict that lies in the folder already is another's, and was only handed through.
    """
    new = [line for unit in units if (line := _line(folder, unit)) is not None]
    if new:
        _write(folder, [*_read(folder), *new])


def settled(folder: RunFolder) -> set[str]:
    """Dispatches of which nothing may be taken over again."""
    return {name for line in _read(folder) if isinstance(line, SettledDispatches) for name in line.dispatches}


def given_by(folder: RunFolder, distrusted: Sequence[Distrusted]) -> set[Verdict]:
    """The verdicts that some machines or attempts gave and that count.

    Raises:
        UsageError: one of them gave none.
    """
    authors = _counting(_read(folder))
    for one in distrusted:
        if not any(one.gave(line) for line in authors.values()):
            raise UsageError(_nobody(folder, one, authors.values()))
    return {verdict for verdict, line in authors.items() if any(one.gave(line) for one in distrusted)}


def drop(folder: RunFolder, verdicts: AbstractSet[Verdict], dispatches: Iterable[str]) -> None:
    """Drop verdicts; they are owed then. Repeating it after a crash in the middle ends in the same.

    The caller holds the folder's lock and has taken over what the dispatches brought.

    Args:
        dispatches: of the grading so far; they are settled by this.
    """
    authors = _counting(_read(folder))
    # files before lines: a process that dies in between leaves lines, so that the next try finds what to drop
    for key, grader in verdicts:
        path = folder.score_path(grader, key) if isinstance(key, TrialKey) else folder.preference_path(grader, key)
        path.unlink(missing_ok=True)
    done = SettledDispatches(dispatches=sorted({*settled(folder), *dispatches}))
    _write(folder, [*_without(authors, verdicts), done])


def _line(folder: RunFolder, unit: Unit) -> GivenBy | None:
    trial, comparison = unit.trial_grading, unit.comparison_grading
    if trial is not None:
        graders = [
            name for name, score in trial.scores.items()
            if score.is_verdict
            and ((there := folder.score(name, trial.key)) is None
                 or (there.score, there.trial_digest) != (score, trial.trial_digest))
        ]  # fmt: skip
    elif comparison is not None:
        graders = [
            name for name, preference in comparison.preferences.items()
            if preference.is_verdict
            and ((found := folder.preference(name, comparison.key)) is None
                 or (found.preference, found.trial_digests) != (preference, comparison.trial_digests))
        ]  # fmt: skip
    else:
        return None
    if not graders:
        return None
    return GivenBy(
        trial=trial.key if trial is not None else None,
        comparison=comparison.key if comparison is not None else None,
        graders=sorted(graders),
        attempt=unit.attempt,
        machine=unit.machine,
    )


def _counting(lines: Iterable[GivenBy | SettledDispatches]) -> dict[Verdict, GivenBy]:
    """By verdict the line that counts: the last about it."""
    found: dict[Verdict, GivenBy] = {}
    for line in lines:
        key = (line.trial or line.comparison) if isinstance(line, GivenBy) else None
        if isinstance(line, GivenBy) and key is not None:
            found.update({(key, grader): line for grader in line.graders})
    return found


def _without(authors: dict[Verdict, GivenBy], dropped: AbstractSet[Verdict]) -> Iterator[GivenBy]:
    for (key, grader), line in authors.items():
        if (key, grader) not in dropped:
            yield line.model_copy(update={"graders": [grader]})


def _nobody(folder: RunFolder, one: Distrusted, lines: Iterable[GivenBy]) -> str:
    known = sorted({found for line in lines if (found := line.machine if one.kind == "machine" else line.attempt)})
    if not known:
        return (
            f"{folder.run_id} does not say who gave its verdicts: it was graded in one process, or by an older mst; "
            f"make a new regrade with 'mst grade {folder.run().graded_from or folder.run_id}'"
        )
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return (
        f"--distrust {one.kind}={one.value}: gave no verdict of {folder.run_id}; "
        f"known: {', '.join(known[:SHOWN])}{more}"
    )


def _path(folder: RunFolder) -> Path:
    return folder.path / AUTHORS


def _read(folder: RunFolder) -> Iterator[GivenBy | SettledDispatches]:
    path = _path(folder)
    try:
        data = read_stored(path)
    except FileNotFoundError:
        return
    for number, text in enumerate(data.splitlines(), 1):
        try:
            yield AUTHOR_LINE.validate_json(text)
        except ValidationError as error:
            raise CorruptFile(f"{path}:{number}: {first_fault(error)}") from error


def _write(folder: RunFolder, lines: Iterable[GivenBy | SettledDispatches]) -> None:
    write_atomic(_path(folder), b"".join(line.to_json() + b"\n" for line in lines))
