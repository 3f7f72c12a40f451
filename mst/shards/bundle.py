"""The self-contained input of one shard, as a folder. See `mst.model.shard.BundleRecord` for what lies in it.

Secrets never enter: options name them, and a scan of every text that was written proves that no value is there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from pydantic import ValidationError

from mst import __version__
from mst.config.cases import CaseFile
from mst.config.files import FileSource, FolderFiles, hash_file, open_stored, read_stored, stored_lines
from mst.errors import CorruptFile, DigestMismatch, RefusedError
from mst.judges.contract import Subject
from mst.model.base import FileRef, digest_bytes
from mst.model.case import Case, DatasetRecord, EvalPlan, GraderSpec
from mst.model.keys import ComparisonKey, TrialKey, segment
from mst.model.run import RunRecord
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.shard import BundledTrial, BundleRecord, UnitKey
from mst.model.trial import TrialRecord, trial_digest
from mst.process.redact import Redactor

CASES = "cases.jsonl"
EARLIER = "earlier.jsonl"
RECORD = "bundle.json"
TRIALS = "run/transcripts"
TRIAL_INDEX = "run/transcripts.jsonl"
SHORTEST_SECRET = 4
"""Shorter values occur by chance; they are redacted but not scanned for."""


class StoredTrials(Protocol):
    """The stored run as a bundle takes from it."""

    def stored(self, case: Case, key: TrialKey) -> tuple[bytes, Subject] | None:
        """A trial record's bytes, and the trial with its artifacts."""
        ...


@dataclass(frozen=True, kw_only=True)
class BundleInput:
    """What all bundles of one dispatch have in common.

    Attributes:
        secret_values: of the run's secrets; none of them may occur in a bundle.
    """

    plan: EvalPlan
    datasets: Sequence[DatasetRecord]
    run_id: str
    files: FileSource
    seed: int
    count: int
    variants: Sequence[str]
    plugins: dict[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    secret_values: Sequence[str] = field(default=(), repr=False)
    dispatch: str = "d1"


def write_collect_bundle(
    into: Path, given: BundleInput, *, shard: int, cases: Iterable[Case], trials: Sequence[TrialKey] | None
) -> str:
    """Write a bundle for collecting: inputs and fixtures, never answers, checks or solutions.

    The client `oracle` is the exception that needs the reference solution, so it gets it.

    Returns:
        The bundle's digest.

    Raises:
        RefusedError: a secret's value stands in what would be sent.
    """
    oracle = any(variant.client == "oracle" for variant in given.plan.variants)
    with _Writer(into, given) as writer:
        for case in cases:
            shown = case.for_collecting()
            if oracle:
                shown = shown.model_copy(update={"expected": case.expected, "solution": case.solution})
            writer.add_case(shown)
            writer.add_files(shown.fixture or [])
            writer.add_files(shown.solution or [])
        writer.add_files(given.plan.files)
        for variant in given.plan.variants:
            writer.add_files(variant.files)
        record = _record(given, without_graders(given.plan), "collect", shard, writer.case_count)
        return writer.finish(record.model_copy(update={"trials": None if trials is None else list(trials)}))


def write_grade_bundle(
    into: Path,
    given: BundleInput,
    *,
    shard: int,
    cases: Iterable[Case],
    run: RunRecord,
    stored: StoredTrials,
    earlier_trial: Callable[[TrialKey, Case], TrialGrading | None] | None = None,
    earlier_comparison: Callable[[ComparisonKey], ComparisonGrading | None] | None = None,
) -> str:
    """Write a bundle for grading: the cases with everything graders need, and the stored run's files of these cases.

    Returns:
        The bundle's digest.

    Raises:
        RefusedError: a secret's value stands in what would be sent.
        CorruptFile, DigestMismatch: a stored file is not what its record says.
    """
    with _Writer(into, given) as writer:
        writer.write("run/run.json", run.to_json())
        for spec in _plan_graders(given.plan):
            writer.add_files(spec.files)
        for case in cases:
            writer.add_case(case)
            for spec in (*case.assertions, *case.judges):
                writer.add_files(spec.files)
            writer.add_files([case.checks] if case.checks is not None else [])
            for key in given.plan.trial_keys(case, given.variants):
                _add_trial(writer, stored, case, key)
                writer.add_earlier(earlier_trial(key, case) if earlier_trial is not None else None)
            for name in given.plan.candidates if earlier_comparison is not None else []:
                assert earlier_comparison is not None
                writer.add_earlier(earlier_comparison(ComparisonKey(candidate=name, case_id=case.id)))
        return writer.finish(_record(given, given.plan, "grade", shard, writer.case_count))


def without_graders(plan: EvalPlan) -> EvalPlan:
    """The plan as the machine that runs the program under test sees it."""
    variants = [variant.model_copy(update={"judges": []}) for variant in plan.variants]
    return plan.model_copy(update={"assertions": [], "pairwise_judges": [], "variants": variants, "config": {}})


def _record(given: BundleInput, plan: EvalPlan, work: str, shard: int, case_count: int) -> BundleRecord:
    return BundleRecord.model_validate(
        {
            "work": work,
            "run_id": given.run_id,
            "eval_name": given.plan.name,
            "shard": shard,
            "count": given.count,
            "dispatch": given.dispatch,
            "mst": __version__,
            "plugins": given.plugins,
            "plan": plan,
            "datasets": list(given.datasets),
            "case_count": case_count,
            "seed": given.seed,
            "variants": list(given.variants),
            "secrets": list(given.secrets),
        }
    )


def _plan_graders(plan: EvalPlan) -> Iterable[GraderSpec]:
    yield from plan.assertions
    yield from plan.pairwise_judges
    for variant in plan.variants:
        yield from variant.judges


def _add_trial(writer: _Writer, stored: StoredTrials, case: Case, key: TrialKey) -> None:
    found = stored.stored(case, key)
    if found is None:
        return
    data, subject = found
    writer.add_trial(key, data, scorable=subject.record.is_scorable)
    for file in subject.artifact_files:
        writer.add_artifact(file, subject.artifacts)


def _trial_name(key: TrialKey) -> str:
    """What a bundle's digest and errors call a trial's record."""
    return f"{TRIALS}/{segment(key.variant)}/{segment(key.case_id)}/{key.trial}.json"


class _Writer:
    """Writes a bundle folder piece by piece. Its digest is over names and digests in the order of writing.

    That order follows from the inputs alone, so equal inputs make equal digests; nothing but the names of copied files
    is held in memory.
    """

    def __init__(self, into: Path, given: BundleInput) -> None:
        self._into = into
        self._given = given
        self._copied: set[str] = set()
        self._hash = hashlib.sha256()
        self._secrets = Redactor(value for value in given.secret_values if len(value) >= SHORTEST_SECRET)
        self.case_count = 0
        into.mkdir(parents=True, exist_ok=True)
        self._streams = {CASES: (into / CASES).open("wb")}
        self._trials_size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._streams.values():
            stream.close()

    def write(self, relative: str, data: bytes) -> None:
        self._scan(relative, data)
        target = self._into / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        self._note(relative, digest_bytes(data))

    def add_trial(self, key: TrialKey, data: bytes, *, scorable: bool) -> None:
        name = _trial_name(key)
        self._scan(name, data)
        at = BundledTrial(
            variant=key.variant,
            case_id=key.case_id,
            trial=key.trial,
            offset=self._trials_size,
            size=len(data),
            scorable=scorable,
        )
        self._stream(TRIAL_INDEX).write(at.to_json() + b"\n")
        self._stream(TRIALS).write(data)
        self._trials_size += len(data)
        self._note(name, digest_bytes(data))

    def add_case(self, case: Case) -> None:
        self._add_line(CASES, f"case {case.id}", case.to_json())
        self.case_count += 1

    def add_earlier(self, found: TrialGrading | ComparisonGrading | None) -> None:
        if found is not None:
            self._add_line(EARLIER, f"an earlier grading of {found.key}", found.to_json())

    def _add_line(self, name: str, what: str, data: bytes) -> None:
        self._scan(what, data)
        self._stream(name).write(data + b"\n")
        self._note(name, digest_bytes(data))

    def _stream(self, name: str) -> IO[bytes]:
        if name not in self._streams:
            path = self._into / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._streams[name] = path.open("wb")
        return self._streams[name]

    def add_files(self, files: Iterable[FileRef]) -> None:
        for file in files:
            self._copy(f"files/{file.sha256}", file, self._given.files)

    def add_artifact(self, file: FileRef, source: FileSource) -> None:
        self._copy(f"run/artifacts/{file.sha256}", file, source)

    def _copy(self, relative: str, file: FileRef, source: FileSource) -> None:
        if relative in self._copied:
            return
        target = self._into / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        found = source.locate(file.sha256)
        shutil.copyfile(found, target)
        if hash_file(target) != file.sha256:
            raise DigestMismatch(f"{found}: changed since it was recorded (for {file.path})")
        if self._secrets:
            self._scan(file.path, target.read_bytes())
        self._copied.add(relative)
        self._note(relative, file.sha256)

    def _scan(self, what: str, data: bytes) -> None:
        if self._secrets.finds(data):
            raise RefusedError(
                f"{what}: the value of a secret stands in what would be sent to a worker; "
                "name it with {secret: NAME} where it is used, and keep it out of cases, options and files"
            )

    def _note(self, relative: str, sha256: str) -> None:
        self._hash.update(f"{relative}\0{sha256}\n".encode())

    def finish(self, record: BundleRecord) -> str:
        for stream in self._streams.values():
            stream.flush()
        self.write(RECORD, record.to_json())
        return self._hash.hexdigest()


class Bundle:
    """A bundle folder as its worker reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / RECORD
        try:
            data = read_stored(path)
        except FileNotFoundError:
            raise CorruptFile(f"{path}: missing, so this is not a bundle") from None
        self.record = BundleRecord.from_json(data, str(path))

    @cached_property
    def cases(self) -> CaseFile:
        """Its cases, all of them checked when they are first asked for.

        Raises:
            CorruptFile: one cannot be read, or there are more or fewer than were sent.
        """
        found = CaseFile.open(self.folder / CASES)
        if len(found) != self.record.case_count:
            raise CorruptFile(f"{self.folder}: {len(found)} cases where {self.record.case_count} were sent")
        return found

    @property
    def files(self) -> FolderFiles:
        """Files of cases, clients and graders by digest."""
        return FolderFiles(self.folder / "files")

    @property
    def variants(self) -> list[str]:
        """Names of the variants to work on, in the plan's order."""
        return self.record.variants or [variant.name for variant in self.record.plan.variants]

    def scorable(self) -> Iterator[TrialKey]:
        """The trials that can be graded, case by case in the plan's order."""
        return (at.key for at in self._trials() if at.scorable)

    def _trials(self) -> Iterator[BundledTrial]:
        path = self.folder / TRIAL_INDEX
        number = 0
        try:
            for line in stored_lines(path):
                number += 1
                yield BundledTrial.model_validate_json(line)
        except FileNotFoundError:
            return
        except ValidationError as error:
            raise CorruptFile(f"{path}:{number}: does not say where a trial lies") from error

    @cached_property
    def _places(self) -> dict[tuple[str, str, int], tuple[int, int]]:
        return {(at.variant, at.case_id, at.trial): (at.offset, at.size) for at in self._trials()}

    def trial_bytes(self, key: TrialKey) -> bytes | None:
        """A trial record's bytes, or None when it was not collected."""
        place = self._places.get((key.variant, key.case_id, key.trial))
        if place is None:
            return None
        offset, size = place
        path = self.folder / TRIALS
        with open_stored(path) as stream:
            if os.fstat(stream.fileno()).st_size < offset + size:
                raise CorruptFile(f"{path}: ends before the record of {key} does")
            return os.pread(stream.fileno(), size, offset)

    def subject(self, case: Case, key: TrialKey) -> Subject | None:
        """A trial as graders see it, or None when it was not collected."""
        data = self.trial_bytes(key)
        if data is None:
            return None
        record = TrialRecord.from_json(data, f"{self.folder}/{_trial_name(key)}")
        return Subject(
            case=case,
            record=record,
            digest=trial_digest(data, record.artifact_files),
            artifacts=FolderFiles(self.folder / "run" / "artifacts"),
        )

    def earlier(self) -> dict[UnitKey, TrialGrading | ComparisonGrading]:
        """Gradings that a resume keeps."""
        path = self.folder / EARLIER
        if not path.is_file():
            return {}
        found: dict[UnitKey, TrialGrading | ComparisonGrading] = {}
        for line in read_stored(path).splitlines():
            grading = (
                TrialGrading.model_validate_json(line)
                if b'"trialDigest":' in line
                else ComparisonGrading.model_validate_json(line)
            )
            found[grading.key] = grading
        return found
