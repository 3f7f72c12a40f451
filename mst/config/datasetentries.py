"""The `datasets` of a config: entries in any accepted form, to named datasets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mst.config import registry
from mst.config.datasets import Dataset
from mst.config.graders import check_options, find_extension
from mst.config.listing import Origin
from mst.config.source import Keys


@dataclass(frozen=True)
class NamedDataset:
    """A dataset of a config.

    Attributes:
        ref: what the config says: the path, or the plugin dataset's name.
        keys: where in the config.
    """

    name: str
    ref: str
    dataset: Dataset
    keys: Keys


def read_datasets(entries: Any, origin: Origin) -> list[NamedDataset]:
    """All datasets with unique names. Faults are noted in the origin."""
    keys: Keys = ("datasets",)
    if not isinstance(entries, list) or not entries:
        origin.fault(keys, "should be a list with at least one dataset, as [{file: cases.yaml}]")
        return []
    found: list[NamedDataset] = []
    for index, entry in enumerate(entries):
        dataset = _read(entry, origin, (*keys, index))
        if dataset is None:
            continue
        if any(other.name.casefold() == dataset.name.casefold() for other in found):
            origin.fault((*keys, index), f"two datasets are called {dataset.name!r}; give one a 'name'")
        found.append(dataset)
    return found


def _read(entry: Any, origin: Origin, keys: Keys) -> NamedDataset | None:
    taken = _take_apart(entry, origin, keys)
    if taken is None:
        return None
    type_name, options, name = taken
    extension = find_extension("datasets", type_name, origin, keys)
    if extension is None:
        return None
    if isinstance(options, str) and type_name in registry.BUILT_IN["datasets"]:
        options = {"path": options}
    loaded = extension.load()
    checked = check_options(loaded, options, origin, keys)
    if checked is None:
        return None
    dataset: Dataset = loaded(loaded.Options.model_validate(checked))
    ref = str(checked.get("path", type_name))
    return NamedDataset(name=name or dataset.default_name(), ref=ref, dataset=dataset, keys=keys)


def _take_apart(entry: Any, origin: Origin, keys: Keys) -> tuple[str, Any, str | None] | None:
    """Type, options and name."""
    if isinstance(entry, str):
        if not (origin.root / entry).exists() and entry.count("/") == 2 and "/dataset/" in entry:
            return entry, {}, None
        return ("dir" if (origin.root / entry).is_dir() else "file"), {"path": entry}, None
    if not isinstance(entry, dict):
        origin.fault(keys, "should be a path or a mapping, as {dir: cases}")
        return None
    rest = dict(entry)
    name = rest.pop("name", None)
    if name is not None and not isinstance(name, str):
        origin.fault((*keys, "name"), "should be a text")
        return None
    type_name = rest.pop("type", None) or rest.pop("ref", None)
    if isinstance(type_name, str):
        return type_name, rest, name
    if len(rest) == 1:
        type_name, options = next(iter(rest.items()))
        return type_name, options, name
    origin.fault(keys, f"names no dataset: one of {', '.join(registry.BUILT_IN['datasets'])}, as {{dir: cases}}")
    return None
