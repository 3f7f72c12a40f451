"""The resolved cases of a run as a file: one JSON line a case, found again by offset, so that memory stays flat."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from mst.config.files import discard, hash_file, open_stored, stored_lines
from mst.errors import CorruptFile
from mst.model.base import first_fault
from mst.model.case import Case, DatasetRecord, EvalPlan

_DIGEST_BYTES = 32


@dataclass
class _Tally:
    """Cases of one dataset so far."""

    count: int = 0
    hasher: Any = field(default_factory=hashlib.sha256)

    def add(self, digest: str) -> None:
        self.count += 1
        self.hasher.update(digest.encode())


class _Index:
    """What is known of a file of cases while it is written or read."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.offsets = array("Q")
        self.digests = bytearray()
        self.trials: dict[str, int] = {}
        self.judged: set[str] = set()
        self.equipped: list[str] = []
        self.all = _Tally()
        self.by_dataset: dict[str, _Tally] = defaultdict(_Tally)

    def add(self, case: Case, offset: int) -> None:
        digest = case.digest
        self.ids.append(case.id)
        self.offsets.append(offset)
        self.digests += bytes.fromhex(digest)
        if case.trials is not None:
            self.trials[case.id] = case.trials
        if case.has_judges:
            self.judged.add(case.id)
        if case.is_equipped:
            self.equipped.append(case.id)
        self.all.add(digest)
        self.by_dataset[case.dataset].add(digest)


class CaseFile:
    """`cases.jsonl`. In memory are only the ID, the byte offset and the digest of each line.

    Iterating and `get` read from the file each time; several threads may do so at once. `get` keeps it open.
    """

    def __init__(self, path: Path, index: _Index) -> None:
        self.path = path
        self._index = index
        self.ids = index.ids
        """Case IDs in the order of the file."""
        self.hash = index.all.hasher.hexdigest()
        """SHA-256 over the case digests (64 hex digits each) in order."""
        self.datasets = {
            name: DatasetRecord(name=name, case_count=tally.count, content_hash=tally.hasher.hexdigest())
            for name, tally in index.by_dataset.items()
        }
        """Count and hash of the cases of each dataset, by name; the hash is made like that of all cases."""
        self._equipped = dict.fromkeys(index.equipped)
        self._offsets = index.offsets
        self._numbers = {case_id: number for number, case_id in enumerate(index.ids)}
        self._stream: BinaryIO | None = None

    @classmethod
    def write(cls, path: Path, cases: Iterable[Case]) -> CaseFile:
        """Write cases as they come. Atomic: the file appears complete, or not at all when the iterable raises.

        IDs must be unique; whoever resolves the cases checks that.
        """
        index = _Index()
        with _atomic(path) as stream:
            for case in cases:
                index.add(case, stream.tell())
                stream.write(case.to_json() + b"\n")
        return cls(path, index)

    def copy(self, path: Path) -> CaseFile:
        """The same cases in another file, byte for byte. Atomic."""
        with _atomic(path) as stream, self.path.open("rb") as source:
            shutil.copyfileobj(source, stream)
        return CaseFile(path, self._index)

    def found_in(self, path: Path) -> CaseFile | None:
        """These cases in a file that holds the same bytes; None when it holds others, or is not there."""
        same = path.is_file() and hash_file(path) == hash_file(self.path)
        return CaseFile(path, self._index) if same else None

    @classmethod
    def open(cls, path: Path) -> CaseFile:
        """Read where each case lies, checking every line.

        Raises:
            CorruptFile: missing, or a line is cut off, is not a case or repeats an ID; names the line.
        """
        index = _Index()
        seen: set[str] = set()
        for number, (offset, line) in enumerate(_lines(path), start=1):
            case = _case(line, path, number)
            if case.id in seen:
                raise CorruptFile(f"{path}:{number}: case {case.id!r} stands here a second time")
            seen.add(case.id)
            index.add(case, offset)
        return cls(path, index)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Case]:
        for number, (_, line) in enumerate(_lines(self.path), start=1):
            yield _case(line, self.path, number)

    def equipped(self) -> Iterator[Case]:
        """Only the cases that bring more than data, and one of the others if there are any: see `Case.is_equipped`.

        Whoever looks for graders, files and secrets finds in these whatever is in any.
        """
        plain = next((case_id for case_id in self.ids if case_id not in self._equipped), None)
        wanted = self._equipped if plain is None else {plain: None, **self._equipped}
        if len(wanted) > len(self) // 4:
            return (case for case in self if case.id in wanted)
        return (self.get(case_id) for case_id in wanted)

    def has_judges(self, case_id: str) -> bool:
        """See `Case.has_judges`; nothing is read."""
        return case_id in self._index.judged

    def digest(self, case_id: str) -> str:
        """See `Case.digest`; nothing is read."""
        start = self._numbers[case_id] * _DIGEST_BYTES
        return self._index.digests[start : start + _DIGEST_BYTES].hex()

    def trials_of(self, plan: EvalPlan) -> dict[str, int]:
        """How many trials each variant makes on each case, by ID; nothing is read."""
        own = self._index.trials
        return {case_id: plan.trials_for(own.get(case_id)) for case_id in self.ids}

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._numbers

    def __getitem__(self, case_id: str) -> Case:
        """See `get`."""
        return self.get(case_id)

    def get(self, case_id: str) -> Case:
        """The case of this ID, read from the file.

        Raises:
            KeyError: no such case.
            CorruptFile: the file changed since it was opened.
        """
        number = self._numbers[case_id]
        case = _case(self._line(number), self.path, number + 1)
        if case.id != case_id:
            raise CorruptFile(f"{self.path}:{number + 1}: changed while it was in use")
        return case

    def _line(self, number: int) -> bytes:
        if self._stream is None:
            self._stream = open_stored(self.path)
            weakref.finalize(self, self._stream.close)
        handle = self._stream.fileno()
        start = self._offsets[number]
        last = number + 1 == len(self)
        end = os.fstat(handle).st_size if last else self._offsets[number + 1]
        return os.pread(handle, end - start, start)


@contextmanager
def _atomic(path: Path) -> Iterator[BinaryIO]:
    """A file that appears complete, or not at all when the block raises."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        discard(Path(temporary))
        raise


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    offset = 0
    try:
        for line in stored_lines(path):
            yield offset, line
            offset += len(line)
    except FileNotFoundError:
        raise CorruptFile(f"{path}: this file is missing") from None


def _case(line: bytes, path: Path, number: int) -> Case:
    if not line.endswith(b"\n"):
        raise CorruptFile(f"{path}:{number}: the line is cut off")
    try:
        return Case.model_validate_json(line)
    except ValidationError as error:
        raise CorruptFile(f"{path}:{number}: not a case ({first_fault(error)})") from error
