"""Secrets: which are needed, and their values from a secrets file or, on this machine only, the environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from mst.config import registry
from mst.config.source import read_text
from mst.config.variants import variants_for
from mst.errors import ConfigError, SecretMissing
from mst.model.case import Case, EvalPlan, GraderSpec, Variant

Work = Literal["collect", "grade"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_FILE_BYTES = 1024 * 1024
SHORT_CHARS = 4
SHOWN_USERS = 3
DOTENV_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


def read_secrets_file(path: Path) -> dict[str, str]:
    """Values by name, from a JSON object of texts or from dotenv lines (`NAME=value`, quotes and comments allowed).

    Raises:
        ConfigError: unreadable, or a line or value is of another form; the message never repeats a value.
    """
    text = read_text(path, name=str(path), max_bytes=MAX_FILE_BYTES)
    return _from_json(text, path) if text.lstrip().startswith("{") else _from_lines(text, path)


def read_expiries(path: Path) -> dict[str, datetime]:
    """When values of a JSON secrets file expire: those written as `{"value": ..., "expires_at": ...}`.

    Raises:
        ConfigError: see `read_secrets_file`.
    """
    text = read_text(path, name=str(path), max_bytes=MAX_FILE_BYTES)
    if not text.lstrip().startswith("{"):
        return {}
    _from_json(text, path)
    found = json.loads(text)
    return {name: _moment(value["expires_at"]) for name, value in found.items() if isinstance(value, dict)}


def secrets_for(
    plan: EvalPlan,
    cases: Iterable[Case],
    work: Work,
    file: Path | None,
    *,
    local: bool,
    places: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The values that a phase needs: from the file, and for the `local` runner also from the environment.

    An empty value is none: nobody's key is empty, and a provider would say so only after the run began.

    Args:
        plan: what needs them.
        cases: with graders and clients of their own.
        work: the phase.
        file: the secrets file, if one was given.
        local: whether the environment counts.
        places: where the config asks for which, when the config is at hand.

    Raises:
        SecretMissing: a needed secret has no value that may be sent; names them all, who needs each, and the way to
            pass them.
        ConfigError: see `read_secrets_file`.
    """
    values = read_secrets_file(file) if file is not None else {}
    found: dict[str, str] = {}
    missing: list[str] = []
    for name, users in sorted(_users(plan, cases, work).items()):
        if values.get(name):
            found[name] = values[name]
        elif local and os.environ.get(name):
            found[name] = os.environ[name]
        else:
            why = _why_missing(name, file, empty=name in values, local=local)
            place = f"{places[name]}: " if name in places else ""
            missing.append(f"{place}secret {name!r} is needed{_by(users)}: {why}")
    if missing:
        raise SecretMissing("\n".join(missing))
    return found


def short_values(values: Mapping[str, str]) -> list[str]:
    """Warnings about values that are too short to be taken out of texts without taking out ordinary words, too."""
    return [
        f"secret {name!r} is under {SHORT_CHARS} characters long: wherever they stand, results say [redacted]"
        for name, value in sorted(values.items())
        if len(value) < SHORT_CHARS
    ]


def names_needed(plan: EvalPlan, cases: Iterable[Case], work: Work) -> list[str]:
    """Names of the secrets of a phase, sorted.

    A name that the config lists under `secrets` belongs to the phase in which something refers to it, and to both
    when nothing does. Reads every case once.
    """
    return sorted(_users(plan, cases, work))


Users = dict[str, dict[str, None]]
"""By the name of a secret, who needs it: the first few, in order."""


def _users(plan: EvalPlan, cases: Iterable[Case], work: Work) -> Users:
    """Who needs each secret of a phase; nobody where only the config lists it."""
    collect: Users = {}
    grade: Users = {}
    for variant in plan.variants:
        _note(collect, client_secrets(variant), f"variant {variant.name!r}")
        _note_graders(grade, variant.judges, "judge")
    _note_graders(grade, plan.assertions, "assertion")
    _note_graders(grade, plan.pairwise_judges, "pairwise judge")
    for case in cases:
        _note_graders(grade, case.assertions, "assertion", case)
        _note_graders(grade, case.judges, "judge", case)
        if case.client is not None or case.client_options:
            for variant in variants_for(plan, case):
                _note(collect, client_secrets(variant), f"variant {variant.name!r} on case {case.id!r}")
    unreferenced: Users = {name: {} for name in plan.secrets if name not in collect and name not in grade}
    return (collect if work == "collect" else grade) | unreferenced


def _note_graders(found: Users, graders: Iterable[GraderSpec], kind: str, case: Case | None = None) -> None:
    where = f" of case {case.id!r}" if case is not None else ""
    for grader in graders:
        _note(found, grader.secrets, f"{kind} {(grader.name or grader.type)!r}{where}")


def _note(found: Users, names: Iterable[str], user: str) -> None:
    for name in names:
        users = found.setdefault(name, {})
        if len(users) <= SHOWN_USERS:
            users.setdefault(user)


def _by(users: Iterable[str]) -> str:
    listed = list(users)
    more = [*listed[:SHOWN_USERS], "others"] if len(listed) > SHOWN_USERS else listed
    *first, last = more or [""]
    return f" by {', '.join(first)} and {last}" if first else f" by {last}" if last else ""


def client_secrets(variant: Variant) -> set[str]:
    """Names of the secrets that a variant's program under test, its servers and its environment need."""
    client = registry.lookup("clients", variant.client)(variant)
    return {*client.secrets_needed(), *secret_names([variant.client_options, variant.servers, variant.env])}


def secret_names(value: Any) -> set[str]:
    """Names in `{secret: NAME}` references anywhere in plain data."""
    return set(_references(value))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if set(value) == {"secret"} and isinstance(value["secret"], str):
            yield value["secret"]
        else:
            for item in value.values():
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _why_missing(name: str, file: Path | None, *, empty: bool, local: bool) -> str:
    if empty or (local and name in os.environ):
        return f"it has an empty value in {file if empty else 'the environment'}"
    if local:
        how = f"it is neither in {file} nor" if file is not None else "pass it with --secrets-file FILE, or set it"
        return f"{how} in the environment"
    where = f"it is not in {file}" if file is not None else "pass it with --secrets-file FILE"
    if name in os.environ:
        where += (
            "; it is set in the environment here, but from there nothing is sent to other processes or machines: "
            "put it into the file of --secrets-file"
        )
    return where


def _from_json(text: str, path: Path) -> dict[str, str]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        raise ConfigError(f"{path}: not valid JSON") from None
    faults = [f"{path}: {key!r} is not a usable name" for key in data if not NAME.fullmatch(key)]
    for key, value in data.items():
        if isinstance(value, dict):
            if not _is_expiring(value):
                faults.append(f"{path}: {key!r} is not of the form {{value, expires_at}}, a time with its time zone")
        elif not _is_value(value):
            faults.append(f"{path}: the value of {key!r} is not a text")
    if faults:
        raise ConfigError(*faults)
    return {key: value["value"] if isinstance(value, dict) else value for key, value in data.items()}


def _is_expiring(found: Mapping[str, Any]) -> bool:
    if set(found) != {"value", "expires_at"} or not _is_value(found["value"]):
        return False
    try:
        _moment(found["expires_at"])
    except (TypeError, ValueError):
        return False
    return True


def _moment(value: str) -> datetime:
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("a time needs its time zone")
    return found


def _is_value(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _from_lines(text: str, path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = DOTENV_LINE.fullmatch(line)
        value = _unquoted(match["value"]) if match is not None else None
        if match is None or value is None or not _is_value(value):
            faults.append(f"{path}:{number}: not a line of the form NAME=value")
        else:
            found[match["name"]] = value
    if faults:
        raise ConfigError(*faults)
    return found


def _unquoted(value: str) -> str | None:
    """The value without quotes or trailing comment; None when a quote is not closed or something follows it."""
    if value[:1] not in {"'", '"'}:
        return re.split(r"\s+#", value, maxsplit=1)[0] if not value.startswith("#") else ""
    pattern = r"'([^']*)'(?:\s+#.*)?" if value[0] == "'" else r'"((?:[^"\\]|\\.)*)"(?:\s+#.*)?'
    match = re.fullmatch(pattern, value)
    if match is None:
        return None
    return match[1] if value[0] == "'" else re.sub(r"\\(.)", lambda part: ESCAPES.get(part[1], part[0]), match[1])
