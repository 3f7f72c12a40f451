"""An eval config for files of results: the cases that they have, and a variant for each model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mst.clients.imports.index import Index, index_of_paths
from mst.clients.imports.records import ImportFault

HEAD = """\
# Trials that were collected elsewhere, graded here. Nothing is started and nothing is asked but judges.
# How: docs/how-to/import-results.md. Check it with `mst validate`, grade it with `mst run`.
"""
GRADERS = """\
# How answers are graded: see docs/reference/graders.md. These are a start.
"""


def import_config(name: str, files: Sequence[Path]) -> str:
    """The text of an eval config that stands beside these files. Reads them once.

    Models that several files have become variants by file.

    Raises:
        ImportFault: a file cannot be read, holds no trials, or two have the same name.
    """
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise ImportFault(f"two files are called {next(one for one in names if names.count(one) > 1)}; rename one")
    indexes = [index_of_paths([file], format="auto", case_id=None) for file in files]
    for file, index in zip(files, indexes, strict=True):
        if not index.models:
            raise ImportFault(f"{file.name}: holds no trials")
    found = [
        (model, label, file, index)
        for file, index in zip(files, indexes, strict=True)
        for model in index.models
        for label in index.prompts[model]
    ]
    variants = [_variant(model, label, file, index, found) for model, label, file, index in found]
    has_answers = indexes[0].first(next(iter(indexes[0].cases))).expected is not None
    grader: dict[str, Any] = {"equals": {}} if has_answers else {"is_error": False}
    return (
        HEAD
        + _dump({"name": name, "datasets": [{"import": names[0]}], "client": "import"})
        + "\n"
        + GRADERS
        + _dump({"assertions": [grader]})
        + "\n"
        + _dump({"variants": variants})
    )


def _variant(
    model: str, label: str | None, file: Path, index: Index, found: Sequence[tuple[str, str | None, Path, Index]]
) -> dict[str, Any]:
    options: dict[str, Any] = {"files": [file.name]}
    name = model
    if len(index.prompts[model]) > 1:
        options["prompt"] = label
        name = f"{model}, {label}"
    if sum(one[0] == model and one[1] == label for one in found) > 1:
        name = f"{name} in {file.name}"
    return {"name": name[:200], "model": model, "client_options": options}


def _dump(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
