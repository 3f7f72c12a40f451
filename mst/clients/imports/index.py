"""Which trial stands where: all listed files read once, their formats found out, and every trial by its key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mst.clients.imports.inspect_log import InspectArchive, InspectJson
from mst.clients.imports.jsonlines import JsonLines, lines_of
from mst.clients.imports.jsonparts import JsonParts
from mst.clients.imports.promptfoo import Promptfoo
from mst.clients.imports.records import MAX_RECORDS, ImportFault, Place, Recorded, ResultFile
from mst.config.files import FileSource
from mst.errors import ObjectMissing
from mst.model.base import FileRef

Format = Literal["auto", "inspect", "promptfoo", "jsonl"]
ZIP = b"PK"
LINE_ENDINGS = (".jsonl", ".ndjson")
KEPT = 4


@dataclass
class Index:
    """Trials of some files. Memory holds a few hundred bytes for each.

    Attributes:
        models: names in the files' order.
        prompts: labels of prompts by model.
        cases: IDs in the files' order.
    """

    models: dict[str, None] = field(default_factory=dict)
    prompts: dict[str, dict[str | None, None]] = field(default_factory=dict)
    cases: dict[str, None] = field(default_factory=dict)
    _trials: dict[tuple[str, str | None, str], dict[int, tuple[ResultFile, str, Place]]] = field(default_factory=dict)
    _by_case: dict[str, list[tuple[str, str | None, str]]] = field(default_factory=dict)
    _count: int = 0

    def add(self, file: ResultFile, name: str) -> None:
        """Read all places of a file.

        Raises:
            ImportFault: it cannot be read, or has a trial that is there already.
        """
        for place in file.places():
            self._count += 1
            if self._count > MAX_RECORDS:
                raise ImportFault(f"{name}: more than {MAX_RECORDS:,} trials")
            self.models.setdefault(place.model)
            self.prompts.setdefault(place.model, {}).setdefault(place.prompt)
            self.cases.setdefault(place.case_id)
            key = (place.model, place.prompt, place.case_id)
            if key not in self._trials:
                self._trials[key] = {}
                self._by_case.setdefault(place.case_id, []).append(key)
            trials = self._trials[key]
            trial = len(trials) if place.trial is None else place.trial
            if trial in trials:
                other = trials[trial][1]
                both = name if other == name else f"{other} and {name}"
                raise ImportFault(
                    f"{both}: trial {trial} of case {place.case_id!r} by {place.model!r} is there twice; list each "
                    "result once, or give each file to a variant of its own"
                )
            trials[trial] = (file, name, place)

    def trials(self, model: str, prompt: str | None, case_id: str) -> list[int]:
        """Numbers of the trials of a case, ascending."""
        return sorted(self._trials.get((model, prompt, case_id), ()))

    def find(self, model: str, prompt: str | None, case_id: str, trial: int) -> tuple[str, Recorded] | None:
        """A trial and the file that it is from; None when there is none.

        Raises:
            ImportFault: the file cannot be read any more.
        """
        found = self._trials.get((model, prompt, case_id), {}).get(trial)
        if found is None:
            return None
        file, name, place = found
        return name, _read(file, name, place)

    def first(self, case_id: str) -> Recorded:
        """Some trial of a case: what it asks is the same in all of them."""
        trials = self._trials[self._by_case[case_id][0]]
        return _read(*trials[min(trials)])

    def most_trials(self, case_id: str) -> int:
        """How many trials the case has of the model that has most."""
        return max(max(self._trials[key]) + 1 for key in self._by_case[case_id])

    def choice(self, model: str | None, prompt: str | None) -> tuple[str, str | None]:
        """The model and prompt that a variant means; those that are the only ones need not be named.

        Raises:
            ImportFault: names none of the files', or leaves several to choose from.
        """
        name = _only(list(self.models), model, "model", "model")
        labels = list(self.prompts[name])
        if prompt is None and len(labels) == 1:
            return name, labels[0]
        label = _only([label or "" for label in labels], prompt, "client_options.prompt", "prompt")
        return name, label if label in self.prompts[name] else None


def _read(file: ResultFile, name: str, place: Place) -> Recorded:
    try:
        return file.read(place)
    except RecursionError as error:
        raise ImportFault(f"{name}: case {place.case_id!r} is nested too deep") from error


def _only(there: Sequence[str], wanted: str | None, where: str, what: str) -> str:
    shown = ", ".join(map(repr, there[:20]))
    if not there:
        raise ImportFault(f"{where}: the files hold no trials")
    if wanted is None:
        if len(there) > 1:
            raise ImportFault(f"{where}: say which {what}'s trials to take; the files have {shown}")
        return there[0]
    if wanted not in there:
        raise ImportFault(f"{where}: no trials of the {what} {wanted!r}; the files have {shown}")
    return wanted


_kept: OrderedDict[object, Index] = OrderedDict()
_keeping = threading.Lock()


def index_of(files: Sequence[FileRef], source: FileSource, *, format: Format, case_id: str | None) -> Index:  # noqa: A002 - the option's name
    """The index of files that a config lists. The last four are kept: all variants of an eval may share one.

    Raises:
        ImportFault: a file is missing or cannot be read.
    """
    key = (tuple((file.path, file.sha256) for file in files), format, case_id)
    with _keeping:
        if key not in _kept:
            _kept[key] = _made([(file.path, _located(file, source)) for file in files], format, case_id)
            while len(_kept) > KEPT:
                _kept.popitem(last=False)
        _kept.move_to_end(key)
        return _kept[key]


def index_of_paths(paths: Iterable[Path], *, format: Format, case_id: str | None) -> Index:  # noqa: A002 - as above
    """The index of files on this machine, made anew.

    Raises:
        ImportFault: see `index_of`.
    """
    return _made([(path.name, path) for path in paths], format, case_id)


def _located(file: FileRef, source: FileSource) -> Path:
    try:
        return source.locate(file.sha256)
    except ObjectMissing as error:
        raise ImportFault(f"{file.path}: this file is missing here") from error


def _made(files: list[tuple[str, Path]], format: Format, case_id: str | None) -> Index:  # noqa: A002 - as above
    index = Index()
    for name, path in files:
        try:
            index.add(_opened(path, name, format, case_id), name)
        except RecursionError as error:
            raise ImportFault(f"{name}: nested too deep") from error
        except OSError as error:
            raise ImportFault(f"{name}: cannot be read: {error.strerror}") from error
    return index


def _opened(path: Path, name: str, format: Format, case_id: str | None) -> ResultFile:  # noqa: A002 - as above
    with path.open("rb") as stream:
        start = stream.read(4)
    if not start:
        raise ImportFault(f"{name}: the file is empty")
    archive = start.startswith(ZIP)
    lines = name.lower().endswith(LINE_ENDINGS)
    known = format if format != "auto" else "inspect" if archive else _guessed(path, name, lines=lines)
    makers: dict[str, Callable[[], ResultFile]] = {
        "inspect": lambda: InspectArchive(path, name) if archive else InspectJson(path, name),
        "promptfoo": lambda: Promptfoo(path, name, lines=lines, case_id=case_id),
        "jsonl": lambda: JsonLines(path, name, case_id=case_id),
    }
    return makers[known]()


def _guessed(path: Path, name: str, *, lines: bool) -> str:
    """The format that a file has by its first keys.

    Raises:
        ImportFault: none that is known.
    """
    with path.open("rb") as stream:
        if lines:
            first = next(lines_of(stream, name), (None, 0, 0))[0]
            is_promptfoo = isinstance(first, dict) and "testCase" in first and "provider" in first
            return "promptfoo" if is_promptfoo else "jsonl"
        parts = JsonParts(stream, name)
        seen: set[str] = set()
        if parts.opens("{"):
            for key in parts.members():
                seen.add(key)
                if {"version", "eval"} <= seen or key == "samples":
                    return "inspect"
                if key == "results":
                    return "promptfoo"
                parts.value()
    raise ImportFault(
        f"{name}: no format that is known: Inspect's logs (.eval, .json), promptfoo's output (.json, .jsonl), or JSON "
        "lines (.jsonl)"
    )
