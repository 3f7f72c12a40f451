"""What every stored or sent document shares: camelCase JSON, format and kind, canonical bytes, digests."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Self, TypeVar

import rfc8785
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from mst.errors import CorruptFile, FormatError


class Model(BaseModel):
    """A frozen value. Reads ignore unknown optional fields, so that a newer minor version stays readable."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
    )

    def to_json(self) -> bytes:
        """Compact camelCase JSON. Optional fields without a value are left out; user data keeps its nulls."""
        return self.model_dump_json(exclude_none=True).encode()

    def to_dict(self) -> dict[str, Any]:
        """The same content as `to_json`, as plain JSON types."""
        return self.model_dump(mode="json", exclude_none=True)


class Document(Model):
    """A value that is stored or sent on its own, and so says what it is: `format` (with major version) and `kind`.

    A subclass sets `FORMAT` and `KIND` and declares both as fields with those defaults.
    """

    FORMAT: ClassVar[str]
    KIND: ClassVar[str]
    format: str
    kind: str

    @classmethod
    def from_json(cls, data: bytes | str, place: str) -> Self:
        """Read a document and check what it claims to be.

        Args:
            data: the bytes that were stored or sent.
            place: where they came from; named in errors.

        Raises:
            FormatError: another major version.
            CorruptFile: not JSON, another kind, or fields missing or of the wrong type.
        """
        try:
            # First as what it should be, since it nearly always is: parsing twice is a large part of reading a run.
            found = cls.model_validate_json(data)
            if found.format == cls.FORMAT and found.kind == cls.KIND and found.model_fields_set >= _CLAIMS:
                return found
        except ValidationError:
            pass
        try:
            head = Head.model_validate_json(data)
        except ValidationError as error:
            raise CorruptFile(f"{place}: not a readable JSON document ({first_fault(error)})") from error
        check_format(head.format, cls.FORMAT, place)
        if head.kind != cls.KIND:
            raise CorruptFile(f"{place}: a {cls.KIND} was expected here, this is a {head.kind}")
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise CorruptFile(f"{place}: {first_fault(error)}") from error


class Head(Model):
    """The two fields that every document carries."""

    format: str
    kind: str


_CLAIMS = frozenset(Head.model_fields)

DocumentT = TypeVar("DocumentT", bound=Document)


def check_format(found: str, wanted: str, place: str) -> None:
    """Refuse a document of another major version.

    Raises:
        FormatError: with the advice to upgrade (newer) or rerun (older).
        CorruptFile: when the format is not one of this family at all.
    """
    if found == wanted:
        return
    found_name, _, found_version = found.rpartition("/v")
    wanted_name, _, wanted_version = wanted.rpartition("/v")
    if found_name != wanted_name or not found_version.isdigit():
        raise CorruptFile(f"{place}: format {found!r} is not {wanted!r}")
    advice = "upgrade mst to read it" if int(found_version) > int(wanted_version) else "rerun to make a current one"
    raise FormatError(f"{place}: format {found} cannot be read by this version of mst ({wanted}); {advice}")


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of plain JSON types: what digests and signatures are made over.

    Most values have nothing in them on which the standard library and RFC 8785 differ, and its encoder is many times
    faster than one in Python; the others go to a library.

    Raises:
        ValueError: not JSON, NaN or infinite, an integer beyond 2^53, a lone surrogate.
    """
    try:
        return _ENCODER.encode(_plain(value)).encode()
    except _OtherwiseWritten:
        return rfc8785.dumps(value)


class _OtherwiseWritten(Exception):
    """A value that the standard library would not write as RFC 8785 does."""


def _plain(value: Any) -> Any:
    """The value with whole floats as integers, which is how RFC 8785 writes them.

    Keys are sorted by UTF-16 there and by code point here, which is the same for ASCII.
    """
    kind = type(value)
    if kind is str:
        if value.isascii() or not _SURROGATE.search(value):
            return value
    elif kind is dict:
        for key in value:
            if type(key) is not str or not key.isascii():
                raise _OtherwiseWritten
        return {key: _plain(item) for key, item in value.items()}
    elif kind is list or kind is tuple:
        return [_plain(item) for item in value]
    elif kind is float or kind is int:
        return _plain_number(value)
    elif kind is bool or value is None:
        return value
    raise _OtherwiseWritten


def _plain_number(value: float) -> float:
    """Between 1e-4 and 2^53 both write a float with the same shortest digits."""
    if -_EXACT < value < _EXACT:
        whole = int(value)
        if whole == value:
            return whole
        if abs(value) >= _SAME_DIGITS:
            return value
    raise _OtherwiseWritten


_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
_EXACT = 2**53
_SAME_DIGITS = 1e-4
_SURROGATE = re.compile("[\ud800-\udfff]")


def digest_bytes(data: bytes) -> str:
    """SHA-256 of bytes, 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """SHA-256 over the canonical JSON of a value (a model counts as its `to_dict`)."""
    return digest_bytes(canonical(value.to_dict() if isinstance(value, Model) else value))


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong, on one line, without what was given: that may be long, or a secret."""
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}" if where else fault["msg"]


def _check_relative(value: str) -> str:
    path = PurePosixPath(value)
    if not value or path.is_absolute() or ".." in path.parts or "\\" in value or "\0" in value or str(path) != value:
        raise ValueError(f"{value!r} is not a plain relative path")
    return value


RelativePath = Annotated[str, AfterValidator(_check_relative)]
"""A POSIX path that stays inside the folder it is relative to: no root, no `..`, no backslash, already normal."""


class FileRef(Model):
    """One file by content: where it goes, and what its bytes are."""

    path: RelativePath
    sha256: str
    size: int
    executable: bool = False
