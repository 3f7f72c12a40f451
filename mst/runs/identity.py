"""Why two trials, or two runs, cannot be compared: the parts of their identities that differ, one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mst.config.variants import flatten
from mst.model.case import Variant
from mst.model.identity import PARTS, differing
from mst.model.keys import TrialKey
from mst.model.run import GraderRecord, RunRecord
from mst.model.trial import TrialRecord
from mst.runs.assemble import planned_trials
from mst.runs.folder import RunFolder

CASE_PARTS = frozenset({"input", "prompt", "fixture", "setup", "solution"})
"""Parts that belong to a case, whatever the variant."""
DETAILED: Mapping[str, str] = {
    "options": "client_options.",
    "servers": "servers.",
    "tools": "tools.",
    "env": "env.",
    "sandbox": "sandbox.",
    "limits": "trial_limits.",
}
"""Parts that are hashes, and the resolved keys of a variant that they are made of."""
GRADED_ELSE = "graded"
_SHOWN_CASES = 5
_SHOWN_KEYS = 8
_SHOWN_CHARS = 120


@dataclass(frozen=True, kw_only=True)
class Differing:
    """One part that differs.

    Attributes:
        part: its name in `mst.model.identity.PARTS`, or `eval`, `variants`, `cases`, `graders`, `graded`, `identity`.
        said: the whole of it in one line.
        variant: whose part it is; None for parts of cases and of the run.
        cases: the first few cases that it is about.
        one, other: both values, None where a side has none.
        trials: how many pairs of trials show it; None when it is not about trials.
    """

    part: str
    said: str
    variant: str | None = None
    cases: tuple[str, ...] = ()
    one: str | None = None
    other: str | None = None
    trials: int | None = None


@dataclass
class Compared:
    """What a comparison found; `trials` is how many pairs were looked at."""

    differences: list[Differing] = field(default_factory=list)
    trials: int = 0

    @property
    def is_comparable(self) -> bool:
        """Whether something was compared, and nothing differs."""
        return self.trials > 0 and not self.differences


def compare_trials(
    one: TrialRecord, other: TrialRecord, *, variants: tuple[Variant, Variant] | None = None
) -> Compared:
    """Two trials, whatever their runs.

    Args:
        variants: both as their runs recorded them, for words in place of hashes.
    """
    found = Compared(trials=1)
    for name, record in (("A", one), ("B", other)):
        if record.identity is None:
            found.differences.append(_unknown(name))
    if one.identity is None or other.identity is None:
        return found
    for part, pair in _told(differing(one.identity, other.identity)).items():
        for name, left, right in _details(part, pair, variants):
            found.differences.append(Differing(part=part, said=_said(name, left, right), one=left, other=right))
    parts = {difference.part for difference in found.differences}
    if one.case_digest != other.case_digest and not parts & CASE_PARTS:
        found.differences.append(_graded_else((one.case_id,), 1))
    return found


def compare_runs(one: RunFolder, other: RunFolder) -> Compared:
    """Two runs: their trials of equal variant, case and number, then what only one of them has, then their graders.

    Memory grows with the number of cases that differ, not with the number of trials.
    """
    left, right = one.run(), other.run()
    found = Compared()
    if left.eval_name != right.eval_name:
        found.differences.append(_plain("eval", left.eval_name, right.eval_name))
    found.differences += _one_sided("variants", _names(left), _names(right))
    found.differences += _one_sided("cases", one.cases().ids, other.cases().ids)
    seen = _Seen()
    for key in _common(one, left, other, right):
        pair = one.trial(key), other.trial(key)
        if pair[0] is not None and pair[1] is not None:
            found.trials += 1
            seen.add(key, pair[0], pair[1])
    found.differences += seen.differences(left, right, found.trials)
    found.differences += _graders(left.graders, right.graders)
    if not found.trials:
        said = "trials: no variant, case and number was collected in both"
        found.differences.append(Differing(part="trials", said=said))
    return found


def _common(one: RunFolder, left: RunRecord, other: RunFolder, right: RunRecord) -> Iterator[TrialKey]:
    both = [name for name in _names(left) if name in set(_names(right))]
    theirs = other.cases()
    for key in planned_trials(left.plan, one.cases(), both):
        if key.case_id in theirs and key.trial < right.plan.trials_of(theirs.get(key.case_id)):
            yield key


@dataclass
class _Seen:
    """Differences over many pairs of trials."""

    settings: Counter[tuple[str, str, str | None, str | None]] = field(default_factory=Counter)
    cases: dict[str, Counter[str]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, key: TrialKey, one: TrialRecord, other: TrialRecord) -> None:
        for name, record in (("A", one), ("B", other)):
            self.unknown[name] += record.identity is None
        if one.identity is None or other.identity is None:
            return
        parts = _told(differing(one.identity, other.identity))
        for part, (left, right) in parts.items():
            if part in CASE_PARTS:
                self.cases.setdefault(part, Counter())[key.case_id] += 1
            else:
                self.settings[key.variant, part, left, right] += 1
        if one.case_digest != other.case_digest and not parts.keys() & CASE_PARTS:
            self.cases.setdefault(GRADED_ELSE, Counter())[key.case_id] += 1

    def differences(self, left: RunRecord, right: RunRecord, trials: int) -> Iterator[Differing]:
        for name, number in self.unknown.items():
            if number:
                yield _unknown(name, number)
        for (variant, part, one, other), number in self.settings.items():
            variants = left.plan.variant(variant), right.plan.variant(variant)
            for name, was, now in _details(part, (one, other), variants):
                said = f"variant {variant}: {_said(name, was, now)} ({number} of {trials} trials)"
                yield Differing(part=part, said=said, variant=variant, one=was, other=now, trials=number)
        for part, cases in self.cases.items():
            shown = tuple(cases)[:_SHOWN_CASES]
            if part == GRADED_ELSE:
                yield _graded_else(shown, cases.total(), len(cases))
                continue
            said = f"{PARTS[part]}: differs in {_listed(shown, len(cases))}"
            yield Differing(part=part, said=said, cases=shown, trials=cases.total())


def _told(parts: dict[str, tuple[str | None, str | None]]) -> dict[str, tuple[str | None, str | None]]:
    """Another input always makes another prompt: it is told once."""
    return {part: pair for part, pair in parts.items() if part != "prompt" or "input" not in parts}


def _said(name: str, one: str | None, other: str | None) -> str:
    return f"{name}: {one or 'none'} in A, {other or 'none'} in B"


def _details(
    part: str, pair: tuple[str | None, str | None], variants: tuple[Variant, Variant] | None
) -> Iterator[tuple[str, str | None, str | None]]:
    """A part in words, with both values; of a part that is a hash, the resolved keys that it was made of and differ."""
    name = PARTS.get(part, part)
    if part == "packages":
        one, other = (_versions(listed) for listed in pair)
        for package in sorted(one.keys() | other.keys()):
            if one.get(package) != other.get(package):
                yield f"{name} {package}", one.get(package), other.get(package)
        return
    keys: list[str] = []
    if part in DETAILED and variants is not None:
        one, other = (_below(variant, DETAILED[part]) for variant in variants)
        keys = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key)]
        for key in keys[:_SHOWN_KEYS]:
            yield f"{name}: {key}", *_both(one.get(key), other.get(key))
    if not keys:
        yield name, *pair


def _versions(listed: str | None) -> dict[str, str]:
    """Packages as `mst.collect.packages` lists them, each with what stands after its name."""
    return dict(one.split(" ", 1) for one in (listed or "").split(", ") if " " in one)


def _below(variant: Variant, prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in flatten(variant).items() if key.startswith(prefix)}


def _both(one: Any, other: Any) -> tuple[str | None, str | None]:
    """Both values, short; of two lists of files only those that differ."""
    if all(_are_files(value) for value in (one, other)):
        left, right = ({file["path"]: file["sha256"][:16] for file in value or []} for value in (one, other))
        differ = [path for path in dict.fromkeys([*left, *right]) if left.get(path) != right.get(path)]
        return _files_of(left, differ), _files_of(right, differ)
    return _short(one), _short(other)


def _are_files(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(file, dict) and {"path", "sha256"} <= file.keys() for file in value)
    )


def _files_of(files: Mapping[str, str], paths: Sequence[str]) -> str | None:
    there = [f"{path} ({files[path]})" for path in paths if path in files]
    return _short(", ".join(there)) if there else None


def _short(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _graders(one: Sequence[GraderRecord], other: Sequence[GraderRecord]) -> Iterator[Differing]:
    """Verdicts of graders with other identities do not compare, although the trials may."""
    left, right = ({(grader.level, grader.name or grader.type): grader for grader in side} for side in (one, other))
    for key in dict.fromkeys([*left, *right]):
        pair = left.get(key), right.get(key)
        hashes = [None if grader is None else grader.identity[:16] for grader in pair]
        if hashes[0] != hashes[1]:
            level, name = key
            said = f"grader {name} ({level}): {hashes[0] or 'none'} in A, {hashes[1] or 'none'} in B"
            yield Differing(part="graders", said=said, one=hashes[0], other=hashes[1])


def _one_sided(what: str, one: Sequence[str], other: Sequence[str]) -> Iterator[Differing]:
    left, right = set(one), set(other)
    for side, names in (("A", [name for name in one if name not in right]), ("B", [n for n in other if n not in left])):
        if names:
            shown = tuple(names[:_SHOWN_CASES])
            said = f"{what}: only in {side}: {_listed(shown, len(names), noun='')}"
            yield Differing(part=what, said=said, cases=shown if what == "cases" else ())


def _listed(shown: Sequence[str], count: int, noun: str = "case") -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    counted = f"{count} {noun}{'' if count == 1 else 's'}: " if noun else ""
    return f"{counted}{', '.join(shown)}{more}"


def _names(run: RunRecord) -> list[str]:
    return [variant.name for variant in run.variants]


def _plain(part: str, one: str, other: str) -> Differing:
    return Differing(part=part, said=f"{part}: {one} in A, {other} in B", one=one, other=other)


def _unknown(side: str, trials: int = 1) -> Differing:
    noun = "trial was" if trials == 1 else "trials were"
    said = f"identity: {trials} {noun} collected in {side} by an mst that recorded none: unknown is not equal"
    return Differing(part="identity", said=said, trials=trials)


def _graded_else(cases: tuple[str, ...], trials: int, count: int | None = None) -> Differing:
    said = f"rest of the case (expected, graders, tags): differs in {_listed(cases, count or len(cases))}"
    return Differing(part=GRADED_ELSE, said=said, cases=cases, trials=trials)
