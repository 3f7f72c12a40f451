"""Which cases and variants of an eval are taken: tags, names, the first n, or a seeded sample."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from itertools import islice

from mst.config.source import nearest
from mst.errors import ConfigError
from mst.model.case import Case, EvalPlan
from mst.model.run import Selection


def is_narrowed(selection: Selection) -> bool:
    """Whether a selection leaves anything out or changes how often it is asked."""
    return selection != Selection()


def narrow_variants(plan: EvalPlan, selection: Selection) -> tuple[EvalPlan, list[str]]:
    """The plan with the chosen variants and trials, and warnings.

    Raises:
        ConfigError: no variant of a chosen name.
    """
    warnings: list[str] = []
    if selection.trials is not None:
        plan = plan.model_copy(update={"trials": selection.trials, "trials_override": selection.trials})
    if selection.variants is None:
        return plan, warnings
    known = [variant.name for variant in plan.variants]
    absent = [name for name in selection.variants if name not in known]
    if absent:
        raise ConfigError(
            *(f"no variant {name!r}{nearest(name, known)}; variants: {', '.join(known)}" for name in absent)
        )
    chosen = [variant for variant in plan.variants if variant.name in selection.variants]
    baseline = plan.baseline
    if baseline not in selection.variants:
        baseline = chosen[0].name
        if len(chosen) > 1:
            warnings.append(
                f"the baseline {plan.baseline!r} is not among the chosen variants; {baseline!r} takes its place"
            )
    return plan.model_copy(update={"variants": chosen, "baseline": baseline}), warnings


def narrow_cases(
    cases: Iterable[Case], selection: Selection, *, tags: list[str] | None, max_cases: int | None
) -> Iterator[Case]:
    """The chosen cases in their order, streamed; `tags` and `max_cases` are the config's own.

    What the selection says replaces what the config says. A sample is taken by the caller, with `sample`.
    """
    wanted_tags = set(selection.filter_tags if selection.filter_tags is not None else tags or [])
    wanted_ids = None if selection.cases is None else set(selection.cases)
    found = (
        case
        for case in cases
        if (not wanted_tags or wanted_tags & set(case.tags)) and (wanted_ids is None or case.id in wanted_ids)
    )
    if selection.sample is not None:
        return found
    limit = selection.max_cases if selection.max_cases is not None else max_cases
    # Cases behind the limit are still read: their faults count, and their IDs must be unique.
    return found if limit is None else _first(found, limit)


def _first(cases: Iterator[Case], limit: int) -> Iterator[Case]:
    yield from islice(cases, limit)
    for _ in cases:
        pass


def sample(ids: Iterable[str], count: int, seed: int) -> set[str]:
    """A random subset of case IDs: the same for the same seed, and mostly the same when cases are added.

    Each ID has its own place in a random order (SHA-256 of seed and ID); the first `count` are taken.
    """

    def rank(case_id: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{case_id}".encode()).digest()

    return set(heapq.nsmallest(count, ids, key=rank))


def check_selection(selection: Selection) -> None:
    """Refuse a selection that contradicts itself.

    Raises:
        ConfigError: `sample` and `max_cases` together, or a number below 1.
    """
    if selection.sample is not None and selection.max_cases is not None:
        raise ConfigError(
            "--sample and --max-cases exclude each other: one takes a random subset, the other the first n"
        )
    for name in ("sample", "max_cases", "trials"):
        value = getattr(selection, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1")


def check_found(chosen: list[str], selection: Selection, known: Iterable[str]) -> None:
    """Refuse a selection that names cases that do not exist, or leaves none.

    Raises:
        ConfigError: with the nearest known ID.
    """
    if selection.cases is not None:
        ids = set(known)
        absent = [case_id for case_id in selection.cases if case_id not in ids]
        if absent:
            raise ConfigError(*(f"no case {case_id!r}{nearest(case_id, ids)}" for case_id in absent))
    if not chosen:
        raise ConfigError(f"no case is left: {_why_none(selection)}")


def _why_none(selection: Selection) -> str:
    if not selection.filter_tags:
        return "the tags and the other choices leave none of the eval's cases"
    of = "the eval's cases" if selection.cases is None else f"the cases {', '.join(selection.cases)}"
    return f"none of {of} has the tag {' or '.join(map(repr, selection.filter_tags))}"
