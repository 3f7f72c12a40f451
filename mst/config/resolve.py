"""An eval config, its plugins and its datasets as one resolved eval: what runs, bundles and regrades work from."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mst.config import narrow, notyet, registry
from mst.config.cases import CaseFile
from mst.config.datasetentries import NamedDataset, read_datasets
from mst.config.datasets import DatasetContext
from mst.config.doubts import doubts
from mst.config.evalconfig import SETUP_KEYS, EvalConfig
from mst.config.files import IndexedFiles
from mst.config.graders import read_graders
from mst.config.layers import Layers, read_layers
from mst.config.listing import Origin
from mst.config.secretplaces import secret_places
from mst.config.setups import Base, CaseChecks, read_variants
from mst.config.source import in_order, nearest
from mst.config.variants import Difference, differences, unexpected
from mst.errors import ConfigError
from mst.model.base import FileRef, digest
from mst.model.case import Case, DatasetRecord, EvalPlan, StageTimeouts, Variant
from mst.model.run import Selection
from mst.process.scratch import scratch_prefix

MAX_FAULTS = 50


@dataclass
class ResolvedEval:
    """Everything about an eval, read and checked. Owns a temporary folder: close it, or use it in a `with`.

    Attributes:
        path: of the config, as given.
        cases: those that the selection leaves, in order.
        datasets: a record for each dataset that still has cases.
        files: finds the bytes of every file that plan and cases refer to.
        differences: what the variants differ in.
        selection: how the eval was narrowed; None when it was not.
        secret_places: where the config asks for a secret, by its name.
    """

    path: Path
    plan: EvalPlan
    cases: CaseFile
    datasets: list[DatasetRecord]
    files: IndexedFiles
    differences: list[Difference]
    warnings: list[str]
    selection: Selection | None = None
    secret_places: Mapping[str, str] = field(default_factory=dict)
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    def close(self) -> None:
        """Remove the temporary folder, and `cases` with it. Safe to call twice."""
        if self.folder is not None:
            self.folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_eval(path: Path, *, selection: Selection | None = None) -> ResolvedEval:
    """Read a config with its shared configs, datasets and files, check all of it, and narrow it.

    Cases are streamed into a file in a temporary folder; memory holds their IDs. Reads every file of the eval once,
    to name it by content. Starts no program and needs no secret.

    Args:
        path: a YAML, JSON or TOML file; relative paths in it start from its folder.
        selection: what to take of it; all by default.

    Raises:
        ConfigError: every fault that was found, one line each (at most 50), with place and fix.
    """
    selection = selection or Selection()
    narrow.check_selection(selection)
    files = IndexedFiles()
    layers = read_layers(path, files)
    origin = layers.origin
    plan, datasets = _plan(layers)
    _raise(origin.faults)
    full = plan
    warnings = [
        *layers.warnings,
        *notyet.unenforced(layers.written, layers.origins, origin),
        *doubts(plan),
    ]
    plan, more = narrow.narrow_variants(plan, selection)
    folder = tempfile.TemporaryDirectory(prefix=scratch_prefix("eval"))
    try:
        cases = _write_cases(Path(folder.name), datasets, full, layers, selection)
    except BaseException:
        folder.cleanup()
        raise
    return ResolvedEval(
        path=path,
        plan=plan,
        cases=cases,
        datasets=[
            record.model_copy(update={"ref": dataset.ref})
            for dataset in datasets
            if (record := cases.datasets.get(dataset.name)) is not None
        ],
        files=files,
        differences=differences(plan.variants),
        warnings=warnings + more,
        selection=selection if narrow.is_narrowed(selection) else None,
        secret_places=secret_places(layers, full),
        folder=folder,
    )


def _plan(layers: Layers) -> tuple[EvalPlan, list[NamedDataset]]:
    config, origin = layers.config, layers.origin
    _check_plugins(config, origin)
    notyet.refuse(layers.written, layers.origins)
    datasets = read_datasets(config.datasets, origin)
    variants = read_variants(config.variants, Base(layers.written, layers.origins), origin)
    graders = {
        kind: read_graders(kind, getattr(config, kind), layers.origins.get(kind, origin), (kind,))
        for kind in ("assertions", "pairwise_judges")
    }
    _raise(origin.faults)
    _check_vary(config, variants, origin)
    refs = [*_files(variants), *(ref for specs in graders.values() for spec in specs for ref in spec.files)]
    plan = EvalPlan(
        name=config.name,
        description=config.description,
        config_id=digest({"name": config.name, "datasets": [dataset.name for dataset in datasets]}),
        content_hash=_content_hash(layers.written, [dataset.name for dataset in datasets], refs),
        variants=variants,
        baseline=_baseline(config, variants, origin),
        assertions=graders["assertions"],
        pairwise_judges=graders["pairwise_judges"],
        stage_timeouts=StageTimeouts(**config.stage_timeouts.given()),
        pricing={model: price.given() for model, price in config.pricing.items()},
        rate_limits=config.rate_limits.given(),
        budget=config.budget.given(),
        metrics=config.metrics or [],
        files=_client_files(variants),
        config=layers.written,
        **{key: getattr(config, key) for key in PLAIN},
    )
    return plan, datasets


PLAIN = ("trials", "concurrency", "retries", "pass_threshold", "secrets", "plugins", "redact_stored_responses")


def _check_plugins(config: EvalConfig, origin: Origin) -> None:
    for index, name in enumerate(config.plugins):
        try:
            registry.plugin_versions([name])
        except ConfigError as error:
            origin.fault(("plugins", index), str(error))


def _baseline(config: EvalConfig, variants: list[Variant], origin: Origin) -> str:
    names = [variant.name for variant in variants]
    if config.baseline is None:
        return names[0]
    if config.baseline not in names:
        message = f"no variant is called {config.baseline!r}{nearest(config.baseline, names)}"
        origin.fault(("baseline",), message)
    return config.baseline


def _check_vary(config: EvalConfig, variants: list[Variant], origin: Origin) -> None:
    if config.vary is None:
        return  # by default the keys that variants set, and nothing else can differ
    for index, entry in enumerate(config.vary):
        key = entry.split(".", 1)[0]
        if key not in SETUP_KEYS:
            origin.fault(("vary", index), f"{entry!r} is not a key that variants can set{nearest(key, SETUP_KEYS)}")
    for difference in unexpected(differences(variants), config.vary):
        named = ", ".join(variant.name for variant in variants)
        origin.fault(
            ("vary",),
            f"variants differ in {difference.field!r} ({named}), which 'vary' does not list; make it equal, or add it",
        )


HOW_MUCH = ("budget", "rate_limits")
"""Keys that say how much may be spent and how fast, and nothing of what is measured: a resume may bring others."""


def _content_hash(written: dict[str, Any], datasets: list[str], refs: list[FileRef]) -> str:
    files = sorted({(ref.path, ref.sha256) for ref in refs})
    config = {key: value for key, value in written.items() if key not in HOW_MUCH}
    return digest({"config": {**config, "datasets": datasets}, "files": [list(file) for file in files]})


def _files(variants: list[Variant]) -> Iterator[FileRef]:
    for variant in variants:
        yield from variant.files
        for spec in variant.judges:
            yield from spec.files
    yield from _client_files(variants)


def _client_files(variants: list[Variant]) -> list[FileRef]:
    refs = [FileRef.model_validate(ref) for variant in variants for ref in variant.client_options.get("files", [])]
    unique = {(ref.path, ref.sha256): ref for ref in refs}
    return [unique[key] for key in sorted(unique)]


def _write_cases(
    folder: Path, datasets: list[NamedDataset], plan: EvalPlan, layers: Layers, selection: Selection
) -> CaseFile:
    config, origin = layers.config, layers.origin
    seen: set[str] = set()
    known: list[str] | None = [] if selection.cases is not None else None
    everything = _all_cases(datasets, plan, origin, seen, known)
    chosen = narrow.narrow_cases(everything, selection, tags=config.filter_tags, max_cases=config.max_cases)
    cases = CaseFile.write(folder / "cases.jsonl", chosen)
    _raise(origin.faults)
    if selection.sample is not None:
        taken = narrow.sample(cases.ids, selection.sample, selection.seed or 0)
        cases = CaseFile.write(folder / "sample.jsonl", (case for case in cases if case.id in taken))
    narrow.check_found(cases.ids, selection, known or [])
    return cases


def _all_cases(
    datasets: list[NamedDataset], plan: EvalPlan, origin: Origin, seen: set[str], known: list[str] | None
) -> Iterator[Case]:
    checks = CaseChecks(plan.variants)
    for dataset in datasets:
        before = len(seen), len(origin.faults)
        try:
            for case, place in dataset.dataset.cases(
                DatasetContext(name=dataset.name, origin=origin, keys=dataset.keys)
            ):
                if case.id.casefold() in seen:
                    origin.faults.append(
                        f"{place}: case ID {case.id!r} is given twice (IDs are compared ignoring case)"
                    )
                    continue
                seen.add(case.id.casefold())
                if known is not None:
                    known.append(case.id)
                checks.check(case, origin, place)
                yield case
        except ConfigError as error:
            origin.faults.extend(error.faults)
        if (len(seen), len(origin.faults)) == before:
            origin.fault(dataset.keys, f"dataset {dataset.name!r} has no cases")


def _raise(faults: list[str]) -> None:
    unique = in_order(faults)
    if len(unique) > MAX_FAULTS:
        rest = len(unique) - MAX_FAULTS
        unique = [*unique[:MAX_FAULTS], f"and {rest} more"]
    if unique:
        raise ConfigError(*unique)
