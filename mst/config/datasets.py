"""Datasets: where cases come from. `file` and `dir` are built in; plugins bring others."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from mst.config import source as sources
from mst.config.caseconfig import CaseWritten, read_case
from mst.config.csvrows import row_data, separator_fault, unknown_columns
from mst.config.listing import IGNORED, Origin
from mst.config.source import Keys, Source
from mst.config.written import Written
from mst.errors import ConfigError
from mst.model.case import Case

MAX_LINE_BYTES = 10 * 1024 * 1024
CASE_FILES = ("case.yaml", "case.yml", "case.json", "case.toml")


@dataclass(frozen=True)
class DatasetContext:
    """What a dataset may use.

    Attributes:
        name: of this dataset; goes into its cases.
        origin: the config's folder, the index that files go into, and where faults are noted.
        keys: where the config names this dataset.
    """

    name: str
    origin: Origin
    keys: Keys = ("datasets",)


class Dataset(Protocol):
    """A source of cases.

    Class attributes:
        Options: schema of its options; unknown keys are refused.
    """

    Options: ClassVar[type[BaseModel]]

    def __init__(self, options: Any) -> None: ...

    def default_name(self) -> str:
        """What the dataset is called when the config does not say."""
        ...

    def cases(self, context: DatasetContext) -> Iterator[tuple[Case, str]]:
        """Every good case with its place, in a stable order, streamed. Bad ones are noted in `context.origin`.

        Raises:
            ConfigError: the dataset as a whole cannot be read.
        """
        ...


class FileDataset:
    """Cases of one YAML, JSON, TOML, JSONL or CSV file. The last two are read line by line and may be of any size."""

    class Options(Written):
        """Options of `file`."""

        path: str
        """Relative to the config."""

    def __init__(self, options: FileDataset.Options) -> None:
        self.path = options.path

    def default_name(self) -> str:
        """The file's name without its ending."""
        return Path(self.path).stem

    def cases(self, context: DatasetContext) -> Iterator[tuple[Case, str]]:
        """See `Dataset.cases`."""
        path = context.origin.root / self.path
        if not path.is_file():
            context.origin.fault(context.keys, f"no such file: {path}")
            return
        readers = {".jsonl": _jsonl, ".ndjson": _jsonl, ".csv": _csv}
        for source, data, keys in readers.get(path.suffix.lower(), _whole)(path):
            if isinstance(data, _Bad):
                context.origin.faults.append(f"{source.place()}: {data.why}")
                continue
            case = read_case(data, context.origin.at(source, path.parent), dataset=context.name, keys=keys)
            if case is not None:
                yield case, source.place(keys)


class DirDataset:
    """One folder a case: `case.yaml` (or json, toml), and if they are there `files/`, `solution/` and `checks.py`."""

    class Options(Written):
        """Options of `dir`."""

        path: str
        """Relative to the config."""

    def __init__(self, options: DirDataset.Options) -> None:
        self.path = options.path

    def default_name(self) -> str:
        """The folder's name."""
        return Path(self.path).name

    def cases(self, context: DatasetContext) -> Iterator[tuple[Case, str]]:
        """See `Dataset.cases`. Cases come in the order of their folders' names."""
        top = context.origin.root / self.path
        if not top.is_dir():
            context.origin.fault(context.keys, f"no such folder: {top}")
            return
        for path in sorted(top.iterdir()):
            if path.is_dir() and not path.name.startswith(".") and path.name not in IGNORED:
                case = _folder_case(path, context)
                if case is not None:
                    yield case, str(path)


def _folder_case(path: Path, context: DatasetContext) -> Case | None:
    found = [name for name in CASE_FILES if (path / name).is_file()]
    if len(found) != 1:
        what = f"has {' and '.join(found)}; keep one" if found else "has no case.yaml (or case.json, case.toml)"
        context.origin.faults.append(f"{path}: this case folder {what}")
        return None
    try:
        source = sources.read(path / found[0])
    except ConfigError as error:
        context.origin.faults.extend(error.faults)
        return None
    data = {} if source.data is None else source.data
    if isinstance(data, dict):
        beside = {"files": "files", "solution": "solution", "checks": "checks.py"}
        data = {**{key: name for key, name in beside.items() if (path / name).exists()}, **data}
    origin = context.origin.at(source, path)
    return read_case(data, origin, dataset=context.name, default_id=path.name)


@dataclass(frozen=True)
class _Bad:
    why: str


Row = tuple[Source, Any, tuple[str | int, ...]]


def _whole(path: Path) -> Iterator[Row]:
    source = sources.read(path)
    data: Any = source.data
    keys: tuple[str | int, ...] = ()
    if isinstance(data, dict) and "cases" in data:
        data, keys = data["cases"], ("cases",)
    if not isinstance(data, list):
        raise ConfigError(f"{source.place(keys)}: should be a list of cases, or a mapping with 'cases'")
    for index, item in enumerate(data):
        yield source, item, (*keys, index)


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as stream:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            source = _line_source(path, number)
            if len(line) > MAX_LINE_BYTES:
                raise ConfigError(f"{source.place()}: a line of more than {MAX_LINE_BYTES // (1024 * 1024)} MB")
            if line.strip():
                yield source, _json_line(line), ()


def _json_line(line: bytes) -> Any:
    try:
        data = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return _Bad(sources.NOT_UTF8)
    except RecursionError:
        return _Bad("nested too deep")
    except ValueError as error:
        return _Bad(f"not valid JSON: {error}")
    unfit = sources.unfit(data)
    return _Bad(f"{sources.dotted(unfit[0][0])}: {unfit[0][1]}") if unfit else data


def _csv(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = next(reader, None)
            if header is None:
                raise ConfigError(f"{path}: empty; the first line names the columns")
            if len(set(header)) != len(header):
                raise ConfigError(f"{path}:1: two columns have the same name")
            if (fault := separator_fault(header)) is not None:
                raise ConfigError(f"{path}:1: {fault}")
            # A column that nobody knows is one fault, of the first line, and not one of every row.
            named: dict[Keys, tuple[int, int]] = {
                (sources.snake(column),): (1, 1) for column in unknown_columns(header, CaseWritten.model_fields)
            }
            line = reader.line_num + 1
            for row in reader:
                source = _line_source(path, line, named)
                line = reader.line_num + 1
                if not row:
                    continue
                try:
                    yield source, row_data(header, row), ()
                except ValueError as error:
                    yield source, _Bad(str(error)), ()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}:{_undecodable_line(path)}: {sources.NOT_UTF8}") from None
    except csv.Error as error:
        raise ConfigError(f"{path}: not a readable CSV file: {error}") from None


def _undecodable_line(path: Path) -> int:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def _line_source(path: Path, number: int, named: Mapping[Keys, tuple[int, int]] = MappingProxyType({})) -> Source:
    return Source(path=path, name=str(path), data=None, marks={(): (number, 1), **named})
