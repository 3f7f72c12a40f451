"""One run folder: where its files are, and how they are written and read.

    <results root>/<eval name>/runs/<run-id>/
      run.json  results.json  summary.json
      inputs/cases.jsonl  inputs/files/<sha256>      what a regrade needs when the eval's own files are gone
      transcripts/<variant>/<case-id>/<trial>.json
      artifacts/<variant>/<case-id>/<trial>/...
      attempts/<variant>/<case-id>/<trial>/<id>/...  attempts that broke down and were made again
      scores/<grader>/<variant>/<case-id>/<trial>.json
      scores/<pairwise judge>/<variant>/<case-id>.json
      authors.jsonl                                  who gave which verdict, when shards did
    report/index.html

A regrade has no transcripts or artifacts of its own: it reads its source's in place.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mst.config.cases import CaseFile
from mst.config.files import FolderFiles, read_stored, remove_halves, stored_lines, write_atomic, write_together
from mst.config.moving import move_folder
from mst.errors import CorruptFile, InfrastructureError, ObjectMissing, UsageError
from mst.judges.contract import Subject
from mst.model.base import FileRef, Head, check_format, first_fault
from mst.model.case import Case
from mst.model.keys import ComparisonKey, TrialKey, segment, short_id
from mst.model.results import CaseResult, ResultsRecord
from mst.model.run import RunRecord
from mst.model.score import PreferenceRecord, ScoreRecord
from mst.model.summary import SummaryRecord
from mst.model.trial import TrialRecord, TrialState, trial_digest

StateT = TypeVar("StateT", TrialRecord, TrialState)
LOCK_TRIES = 5
LOCK_PAUSE_S = 0.05


class RunFolder:
    """A run's folder. Reading is safe at any time; writers hold `locked()`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = path.name
        self._source: RunFolder | None = None

    def __repr__(self) -> str:
        return f"RunFolder({self.path})"

    @property
    def inputs(self) -> Path:
        """What the run was resolved to: cases and the files that graders need."""
        return self.path / "inputs"

    @property
    def work(self) -> Path:
        """Bundles and results of shards while they run; removed when the run is assembled."""
        return self.path / ".work"

    @property
    def source(self) -> RunFolder:
        """The folder that holds the transcripts: this one, or the one that a regrade was made from."""
        if self._source is None:
            found = self.run().graded_from
            if found is not None and not (self.path / "transcripts").is_dir():
                self._source = RunFolder(self.path.with_name(found))
            else:
                self._source = self
        return self._source

    def trial_path(self, key: TrialKey) -> Path:
        """Where a trial's record is."""
        return Path(_trial_name(self.path, key))

    def artifact_folder(self, key: TrialKey) -> Path:
        """Where a trial's exported workspace is."""
        return Path(_artifacts_name(self.path, key))

    def score_path(self, grader: str, key: TrialKey) -> Path:
        """Where one grader's score on a trial is."""
        return Path(_score_name(self.path, grader, key))

    def preference_path(self, judge: str, key: ComparisonKey) -> Path:
        """Where one pairwise judge's preference on a case is."""
        return self.path / "scores" / segment(judge) / segment(key.candidate) / f"{segment(key.case_id)}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against other writers on this machine. The lock goes with the process, however it ends.

        What a writer that was killed left half-written is removed first.

        Raises:
            UsageError: another process is writing this run.
        """
        try:
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InfrastructureError(f"{self.path}: cannot be written ({error.strerror})") from error
        try:
            if not _lock(descriptor):
                raise UsageError(f"{self.path}: another mst process is writing this run; wait for it to end")
            remove_halves(self.path, besides=("artifacts",))
            yield
        finally:
            os.close(descriptor)

    def is_locked(self) -> bool:
        """Whether some process is writing this run now. Changes nothing, so it works where nothing may be written."""
        try:
            descriptor = os.open(self.path / ".lock", os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def write_run(self, run: RunRecord) -> None:
        """Replace `run.json`."""
        write_atomic(self.path / "run.json", run.model_dump_json(exclude_none=True, indent=1).encode())

    def write_summary(self, summary: SummaryRecord) -> None:
        """Replace `summary.json`."""
        write_atomic(self.path / "summary.json", summary.model_dump_json(exclude_none=True, indent=1).encode())

    def write_trial(self, record: TrialRecord, artifacts: Path | None) -> None:
        """Make a trial durable: artifacts first, the record last, so that a record's artifacts are always there.

        Args:
            record: of the trial, without its artifact path.
            artifacts: folder with the exported files; it is moved.
        """
        key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
        update: dict[str, object] = {"run_id": self.run_id}
        if artifacts is not None:
            target = self.artifact_folder(key)
            if target.exists():
                shutil.rmtree(target)
            move_folder(artifacts, target)
            update["artifacts"] = target.relative_to(self.path).as_posix()
        write_atomic(_trial_name(self.path, key), record.model_copy(update=update).to_json())

    def run(self) -> RunRecord:
        """Read `run.json`.

        Raises:
            UsageError: no run here.
            CorruptFile, FormatError: it cannot be read.
        """
        path = self.path / "run.json"
        try:
            data = read_stored(path)
        except FileNotFoundError:
            raise UsageError(f"{self.path}: no run.json here, so this is not a run folder") from None
        return RunRecord.from_json(data, str(path))

    def summary(self) -> SummaryRecord:
        """Read `summary.json`.

        Raises:
            UsageError: the run was not assembled yet.
        """
        path = self.path / "summary.json"
        try:
            data = read_stored(path)
        except FileNotFoundError:
            run_id = self.run().run_id
            raise UsageError(
                f"{run_id}: nothing is graded yet; grade it with 'mst grade {short_id(run_id)}', or finish collecting "
                f"first with 'mst run CONFIG --resume {short_id(run_id)}'"
            ) from None
        return SummaryRecord.from_json(data, str(path))

    @property
    def cases_path(self) -> Path:
        """The cases as this run resolved them: what `cases` reads."""
        return self.inputs / "cases.jsonl"

    def cases(self) -> CaseFile:
        """The cases as this run resolved them."""
        return CaseFile.open(self.cases_path)

    def files(self) -> FolderFiles:
        """The files that the run's cases and graders name."""
        return FolderFiles(self.inputs / "files")

    def case_results(self) -> Iterator[CaseResult]:
        """Stream `results.json`: one case for one variant at a time, in its order."""
        for place, line in self.result_lines():
            try:
                yield CaseResult.model_validate_json(line)
            except ValidationError as error:
                raise CorruptFile(f"{place}: {first_fault(error)}; {_GRADE_AGAIN}") from error

    def result_lines(self) -> Iterator[tuple[str, bytes]]:
        """The same as JSON, each with its place for errors.

        Raises:
            CorruptFile: it is missing, cannot be read or was cut off.
            FormatError: it is of another major version.
        """
        path = self.path / "results.json"
        try:
            yield from _results(path)
        except FileNotFoundError:
            raise CorruptFile(f"{path}: this file is missing; {_GRADE_AGAIN}") from None

    def trial_bytes(self, key: TrialKey) -> bytes | None:
        """A trial record's bytes, or None when the trial has not been collected."""
        return _bytes(_trial_name(self.source.path, key))

    def trial(self, key: TrialKey) -> TrialRecord | None:
        """A trial's record, or None when it has not been collected.

        Raises:
            CorruptFile: it cannot be read, or is another trial's.
        """
        place = _trial_name(self.source.path, key)
        data = _bytes(place)
        return None if data is None else _of(key, TrialRecord.from_json(data, place), place)

    def trial_state(self, key: TrialKey) -> TrialState | None:
        """How a trial ended, or None when it has not been collected. Raises as `trial` does, for what it reads."""
        place = _trial_name(self.source.path, key)
        data = _bytes(place)
        return None if data is None else _of(key, TrialState.from_json(data, place), place)

    def subject(self, case: Case, key: TrialKey) -> Subject | None:
        """A trial as graders see it, or None when it has not been collected. Raises as `trial` does."""
        found = self.stored(case, key)
        return None if found is None else found[1]

    def stored(self, case: Case, key: TrialKey) -> tuple[bytes, Subject] | None:
        """A trial's bytes and the trial as graders see it, read once. As `subject` otherwise."""
        place = _trial_name(self.source.path, key)
        data = _bytes(place)
        if data is None:
            return None
        record = _of(key, TrialRecord.from_json(data, place), place)
        return data, Subject(
            case=case,
            record=record,
            digest=trial_digest(data, record.artifact_files),
            artifacts=TrialArtifacts(_artifacts_name(self.source.path, key), record.artifact_files),
        )

    def score(self, grader: str, key: TrialKey) -> ScoreRecord | None:
        """One grader's score on a trial, or None."""
        place = _score_name(self.path, grader, key)
        try:
            return ScoreRecord.from_json(read_stored(place), place)
        except FileNotFoundError:
            return None

    def preference(self, judge: str, key: ComparisonKey) -> PreferenceRecord | None:
        """One pairwise judge's preference on a case, or None."""
        path = self.preference_path(judge, key)
        try:
            return PreferenceRecord.from_json(read_stored(path), str(path))
        except FileNotFoundError:
            return None

    def write_verdict(self, record: ScoreRecord | PreferenceRecord) -> None:
        """Replace one grader's score on a trial, or one pairwise judge's preference on a case."""
        write_atomic(self._verdict_name(record), record.to_json())

    def write_verdicts(self, records: Iterable[ScoreRecord | PreferenceRecord]) -> None:
        """The same for several: each is there whole or not at all, and the disk is waited for once."""
        write_together({self._verdict_name(record): record.to_json() for record in records})

    def _verdict_name(self, record: ScoreRecord | PreferenceRecord) -> str:
        if isinstance(record, ScoreRecord):
            key = TrialKey(variant=record.variant, case_id=record.case_id, trial=record.trial)
            return _score_name(self.path, record.grader, key)
        pair = ComparisonKey(candidate=record.variant, case_id=record.case_id)
        return str(self.preference_path(record.judge, pair))

    def preferences(self) -> Iterator[PreferenceRecord]:
        """All preferences of the run, by judge, candidate and case name."""
        for path in sorted((self.path / "scores").glob("pairwise.*/*/*.json")):
            yield PreferenceRecord.from_json(read_stored(path), str(path))

    def has_trials(self) -> bool:
        """Whether anything was collected."""
        return next((self.source.path / "transcripts").glob("*/*/*.json"), None) is not None


def _lock(descriptor: int) -> bool:
    """Take a lock, and look again for a moment when it is taken: somebody may just be asking who holds it."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            threading.Event().wait(LOCK_PAUSE_S)
        else:
            return True
    return False


# What is done for every trial works with plain names: to make a path costs more than to read what it names.


def _trial_name(run: Path, key: TrialKey) -> str:
    return f"{run}/transcripts/{segment(key.variant)}/{segment(key.case_id)}/{key.trial}.json"


def _artifacts_name(run: Path, key: TrialKey) -> str:
    return f"{run}/artifacts/{segment(key.variant)}/{segment(key.case_id)}/{key.trial}"


def _score_name(run: Path, grader: str, key: TrialKey) -> str:
    return f"{run}/scores/{segment(grader)}/{segment(key.variant)}/{segment(key.case_id)}/{key.trial}.json"


class TrialArtifacts:
    """One trial's exported files by digest."""

    def __init__(self, folder: Path | str, listed: list[FileRef]) -> None:
        self._folder = folder
        self._listed = listed

    def locate(self, sha256: str) -> Path:
        """See `mst.config.files.FileSource.locate`."""
        for file in self._listed:
            path = Path(self._folder, file.path)
            if file.sha256 == sha256 and path.is_file():
                return path
        raise ObjectMissing(f"{self._folder}: an artifact with digest {sha256} is missing")


_END = re.compile(rb'\](?:,"caseCount":(\d{1,12}))?\}')
_GRADE_AGAIN = "'mst grade RUN' makes another from the same trials"


def _results(path: Path) -> Iterator[tuple[str, bytes]]:
    """See `ResultsWriter`: a head, a line for each case and variant, an end. Without its end there may be fewer."""
    line, found = b"", 0
    for number, line in enumerate(stored_lines(path), 1):
        text = line.strip()
        if number == 1:
            _check_head(text, str(path))
        elif text and not text.startswith(b"]"):
            found += 1
            yield f"{path}:{number}", text.rstrip(b",")
    end = _END.fullmatch(line.strip())
    if end is None:
        raise CorruptFile(f"{path}: cut off; {_GRADE_AGAIN}")
    if end[1] is not None and int(end[1]) != found:
        raise CorruptFile(f"{path}: has {found} of {int(end[1])} entries; {_GRADE_AGAIN}")


def _check_head(line: bytes, place: str) -> None:
    try:
        head = Head.model_validate_json(line + b"]}")
    except ValidationError:
        raise CorruptFile(f"{place}: these are no results; {_GRADE_AGAIN}") from None
    check_format(head.format, ResultsRecord.FORMAT, place)


def _bytes(path: str) -> bytes | None:
    try:
        return read_stored(path)
    except FileNotFoundError:
        return None


def _of(key: TrialKey, record: StateT, place: str) -> StateT:
    if (record.variant, record.case_id, record.trial) != (key.variant, key.case_id, key.trial):
        raise CorruptFile(f"{place}: this is the record of another trial")
    return record
