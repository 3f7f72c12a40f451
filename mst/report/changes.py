"""What is not the same in two runs: eval, cases, graders by identity, variants' settings, where it ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mst.model.comparison import Change, ChangeKind, MatchedCases
from mst.model.run import GraderRecord, RunRecord
from mst.report.differences import as_written, flat, settings
from mst.report.figures import count
from mst.report.text import names, one_line

VALUE_LIMIT = 200
SHOWN_IDENTITY = 8
_CONCEALED = "hmac:"
_APART = frozenset({"name", "description", "variants", "config", "content_hash", "config_id", "assertions",
                    "pairwise_judges", "concurrency", "files", "pricing", "rate_limits"})  # fmt: skip
"""Of a plan: compared elsewhere, or without a say in what comes out."""
_OF_FIELDS = ("stage_timeouts", "budget")
"""Of a plan: mappings whose keys are ours."""


def changes(before: RunRecord, after: RunRecord, cases: MatchedCases) -> list[Change]:
    """What changed from one run to the other, in the order in which a reader should know it.

    Credential-like values are hashed with a key of each run: whether they changed is only known within one key.
    """
    found = [*_eval(before, after), *_datasets(before, after), *_cases(cases), *_graders(before, after)]
    same_key = before.hmac_key == after.hmac_key
    then, now = settings(before), settings(after)
    for name in now:
        if name in then:
            found += _values("variant", name, then[name], now[name], same_key=same_key)
    found += _values("setting", None, _plan(before), _plan(after), same_key=same_key)
    found += _values("selection", None, _selection(before), _selection(after), same_key=True)
    return [*found, *_values("machine", None, _machine(before), _machine(after), same_key=True)]


def change_words(change: Change) -> str:
    """One change as a line."""
    name = one_line(change.name, limit=120)
    what = f" {one_line(change.what, limit=120)}" if change.what else ""
    head = f"{change.kind} {name}{what}"
    if change.before is None and change.after is None:
        return head
    if change.before is None:
        return f"{head}: {change.after}, only in the second"
    return f"{head}: {change.before}, only in the first" if change.after is None else (
        f"{head}: {change.before} -> {change.after}"
    )  # fmt: skip


def _eval(before: RunRecord, after: RunRecord) -> Iterator[Change]:
    if before.eval_name != after.eval_name:
        yield Change(kind="eval", name="name", before=before.eval_name, after=after.eval_name)
    if before.baseline != after.baseline:
        yield Change(kind="eval", name="baseline", before=before.baseline, after=after.baseline)


def _datasets(before: RunRecord, after: RunRecord) -> Iterator[Change]:
    then = {dataset.name: dataset for dataset in before.datasets}
    now = {dataset.name: dataset for dataset in after.datasets}
    for name in dict.fromkeys((*then, *now)):
        old, new = then.get(name), now.get(name)
        if old is not None and new is not None and old.content_hash == new.content_hash:
            continue
        yield Change(
            kind="dataset",
            name=name,
            before=None if old is None else f"{count(old.case_count, 'case')} ({old.content_hash[:SHOWN_IDENTITY]})",
            after=None if new is None else f"{count(new.case_count, 'case')} ({new.content_hash[:SHOWN_IDENTITY]})",
        )


def _cases(cases: MatchedCases) -> Iterator[Change]:
    if cases.changed:
        yield Change(kind="case", name=names(cases.changed), what="(input, expectations, checks or assertions)")


def _graders(before: RunRecord, after: RunRecord) -> Iterator[Change]:
    then, now = _by_name(before.graders or before.judges), _by_name(after.graders or after.judges)
    for key in dict.fromkeys((*then, *now)):
        level, name = key
        old, new = then.get(key, []), now.get(key, [])
        if sorted(one.identity for one in old) == sorted(one.identity for one in new):
            continue
        if len(old) == len(new) == 1:
            yield _grader(name, level, old[0], new[0])
        else:
            yield Change(kind="grader", name=name, what=f"({level})", before=_listed(old), after=_listed(new))


def _grader(name: str, level: str, old: GraderRecord, new: GraderRecord) -> Change:
    """Which parts of an identity differ: those that say something in words, else its hash."""
    parts = {
        "type": (old.type, new.type),
        "model": (old.model, new.model),
        "version": (old.version, new.version),
        "plugin": (old.plugin_version, new.plugin_version),
        "prompt": (_short(old.prompt_hash), _short(new.prompt_hash)),
        "options": (_short(old.options_hash), _short(new.options_hash)),
    }
    differing = {part: pair for part, pair in parts.items() if pair[0] != pair[1]}

    def said(side: int) -> str:
        return ", ".join(f"{part} {one_line(pair[side] or 'none', limit=60)}" for part, pair in differing.items())

    return Change(kind="grader", name=name, what=f"({level})", before=said(0) or None, after=said(1) or None)


def _by_name(graders: Iterable[GraderRecord]) -> dict[tuple[str, str], list[GraderRecord]]:
    found: dict[tuple[str, str], list[GraderRecord]] = {}
    for grader in graders:
        found.setdefault((grader.level, grader.name or grader.type), []).append(grader)
    return found


def _listed(graders: list[GraderRecord]) -> str | None:
    """Several of one name: as often as they are there, by identity."""
    if not graders:
        return None
    return names([f"{one.type} {one.identity[:SHOWN_IDENTITY]}" for one in graders])


def _values(
    kind: ChangeKind, name: str | None, then: Mapping[str, str], now: Mapping[str, str], *, same_key: bool
) -> Iterator[Change]:
    """Settings that differ; `name` is of what they belong to, None when a setting stands by itself."""
    for setting in dict.fromkeys((*then, *now)):
        old, new = then.get(setting), now.get(setting)
        if old == new or (not same_key and _only_hashes_differ(old, new)):
            continue
        yield Change(
            kind=kind,
            name=setting if name is None else name,
            what=None if name is None else setting,
            before=None if old is None else one_line(old, limit=VALUE_LIMIT),
            after=None if new is None else one_line(new, limit=VALUE_LIMIT),
        )


def _only_hashes_differ(old: str | None, new: str | None) -> bool:
    if old is None or new is None or _CONCEALED not in old:
        return False
    return _without_hashes(old) == _without_hashes(new)


def _without_hashes(text: str) -> str:
    first, *rest = text.split(_CONCEALED)
    return first + _CONCEALED.join(["", *(part[16:] for part in rest)])


def _plan(run: RunRecord) -> dict[str, str]:
    fields = as_written(run.plan.to_dict())
    fields |= {name: as_written(fields[name]) for name in _OF_FIELDS if isinstance(fields.get(name), dict)}
    return flat({name: value for name, value in fields.items() if name not in _APART})


def _selection(run: RunRecord) -> dict[str, str]:
    return flat(as_written(run.selection.to_dict())) if run.selection is not None else {}


def _machine(run: RunRecord) -> dict[str, str]:
    found = run.environment
    return {"mst": run.mst.version, "python": found.node.removeprefix("python "), "platform": found.platform,
            "collected by": f"{found.name} runner"}  # fmt: skip


def _short(digest: str | None) -> str | None:
    return None if digest is None else digest[:SHOWN_IDENTITY]
