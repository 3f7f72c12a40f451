"""A case as people write it, to a case as resolved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from mst.config.evalconfig import AssertionEntries, GraderEntries, Positive, Share
from mst.config.graders import read_graders
from mst.config.listing import Origin, folder, listed, one_file
from mst.config.source import Keys
from mst.config.written import Written, parse
from mst.errors import ConfigError
from mst.model.base import FileRef
from mst.model.case import Case

CaseId = Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _text_or_mapping(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise ValueError("should be a text or a mapping")  # noqa: TRY004 - pydantic makes faults of ValueErrors
    return value


def _answer(value: Any) -> Any:
    return {"answer": value} if isinstance(value, str | int | float) else value


class CaseWritten(Written):
    """One thing to be answered."""

    id: CaseId | None = None
    """Unique in the eval, ignoring case. In a `dir` dataset the folder's name unless given."""
    input: Annotated[str | dict[str, Any], BeforeValidator(_text_or_mapping)] = ""
    """The prompt, or what the client makes of a mapping."""
    expected: Annotated[dict[str, Any], BeforeValidator(_answer)] = {}
    """`answer`, `criteria` and whatever graders read; a text, a number or a truth alone is the answer."""
    tags: list[str] = []
    """For choosing cases. `regression` (works today) and `held-out` (not in the verdict) have a meaning."""
    metadata: dict[str, Any] = {}
    """`cluster` names the family of a case."""
    kind: Literal["change", "stay_quiet"] = "change"
    """`stay_quiet`: there is nothing to do, and a sound program leaves it alone."""
    assertions: AssertionEntries = None
    """Beside those of the config."""
    judges: GraderEntries = None
    """Beside those of the config; of the same judge, the case's settings win."""
    judge_reps: Positive | None = None
    """How often each judge is asked."""
    trials: Positive | None = None
    """In place of the config's."""
    pass_threshold: Share | None = None
    """In place of the config's."""
    client: str | None = None
    """In place of the variants'; then their options do not apply."""
    model: str | None = None
    """In place of the variants'."""
    client_options: dict[str, Any] = {}
    """Over the variants', key by key."""
    files: str | None = None
    """Folder that the workspace starts from."""
    solution: str | None = None
    """Folder that is laid over the files to give a right answer."""
    checks: str | None = None
    """The case's own scorer: a Python file or a program."""
    setup: list[Annotated[list[str], Field(min_length=1)]] = []
    """Programs to run in the workspace before the client, each a list of arguments."""
    teardown: list[Annotated[list[str], Field(min_length=1)]] = []
    """The same, after the export."""
    image: str | None = None
    """Container image of the workspace, for runners that have containers."""


PLAIN = ("tags", "metadata", "kind", "judge_reps", "trials", "pass_threshold", "model", "setup", "teardown", "image")


def read_case(
    data: Any, origin: Origin, *, dataset: str, default_id: str | None = None, keys: Keys = ()
) -> Case | None:
    """A case with its files by content. None when it has faults, which are noted in the origin.

    `default_id` is the ID when the case gives none, `keys` is where it stands in its source.
    """
    before = len(origin.faults)
    if not isinstance(data, dict):
        origin.fault(keys, "a case should be a mapping")
        return None
    try:
        written = parse(CaseWritten, origin.source, data, keys)
    except ConfigError as error:
        origin.faults.extend(error.faults)
        return None
    case_id = written.id or default_id
    if case_id is None:
        origin.fault(keys, "the case has no 'id'")
        return None
    options = with_files(written.client_options, origin, (*keys, "client_options"))
    case = Case(
        id=case_id,
        dataset=dataset,
        input=written.input,
        expected=written.expected,
        assertions=read_graders("assertions", written.assertions, origin, (*keys, "assertions")),
        judges=read_graders("judges", written.judges, origin, (*keys, "judges")),
        client=written.client,
        client_options=options,
        fixture=_folder(written.files, origin, (*keys, "files")),
        solution=_folder(written.solution, origin, (*keys, "solution")),
        checks=_file(written.checks, origin, (*keys, "checks")),
        **{name: getattr(written, name) for name in PLAIN},
    )
    return case if len(origin.faults) == before else None


def with_files(options: dict[str, Any], origin: Origin, keys: Keys) -> dict[str, Any]:
    """Client options with the paths of `files: [...]` replaced by files by content.

    When there is none of them, which is a fault already, the paths stay: that the list is empty would be no news.
    """
    if "files" not in options:
        return options
    written = options["files"]
    refs = listed(origin, written, (*keys, "files"))
    paths = [path for path in (written if isinstance(written, list) else [written]) if isinstance(path, str)]
    return {**options, "files": [ref.to_dict() for ref in refs] or paths}


def _folder(name: str | None, origin: Origin, keys: Keys) -> list[FileRef] | None:
    return None if name is None else folder(origin, name, keys)


def _file(name: str | None, origin: Origin, keys: Keys) -> FileRef | None:
    return None if name is None else one_file(origin, name, keys)
