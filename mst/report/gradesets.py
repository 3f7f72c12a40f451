"""The gradings of one run side by side: who judged, with which identity, and what came out differently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from mst.model.keys import short_id
from mst.model.run import RunRecord
from mst.model.score import GraderScore
from mst.report.figures import percent
from mst.report.text import one_line
from mst.runs.folder import RunFolder
from mst.stats.agreement import cohen_kappa

SHOWN_IDENTITY = 8
MAX_LISTED = 20

Trials = dict[tuple[str, str, int], bool | None]
Verdicts = dict[str, Trials]


def grade_sets(folders: Sequence[RunFolder]) -> dict[str, Any]:
    """Gradings of the same trials as one JSON document: each set, and how each differs from the first.

    Args:
        folders: those without results (not finished once) are listed without numbers.

    Raises:
        CorruptFile: a results file cannot be read.
    """
    if not folders:
        return {"sets": [], "changes": []}
    read = [(folder.run(), *_read(folder)) for folder in folders]
    sets = [_set(run, trials, verdicts) for run, trials, verdicts in read]
    first = read[0]
    changes = [
        {"from": first[0].run_id, "to": run.run_id, **_change(first, (run, trials, verdicts))}
        for run, trials, verdicts in read[1:]
        if trials
    ]
    return {"sets": sets, "changes": changes if first[1] else []}


def lines(document: dict[str, Any]) -> Iterator[str]:
    """The document for a terminal."""
    for found in document["sets"]:
        narrowed = "  narrowed" if found["partial"] else ""
        yield f"{found['runId']}  grade {found['phase']}{narrowed}"
        for name, variant in found["variants"].items():
            rate = percent(variant["passed"] / variant["scored"]) if variant["scored"] else "no score"
            yield f"    {one_line(name, limit=40):<24} {rate:>8}  {variant['passed']} of {variant['scored']} trials"
        yield from _grader_lines(found["graders"])
    for change in document["changes"]:
        yield ""
        yield f"{short_id(change['from'])} -> {short_id(change['to'])}: {_in_words(change)}"
        for name, grader in change["graders"].items():
            yield f"    {one_line(name, limit=40):<24} {_grader_in_words(grader)}"
        for one in change["flips"]:
            where = f"{one['variant']}/{one['case']}/{one['trial']}"
            yield f"    {one_line(where, limit=60)}: {_word(one['before'])} -> {_word(one['after'])}"
        if change["flipCount"] > len(change["flips"]):
            yield f"    and {change['flipCount'] - len(change['flips'])} more"


def _grader_lines(graders: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each grader once; where one name stands for several, with the places that have each."""
    places: dict[tuple[str, str], list[str]] = {}
    for grader in graders:
        places.setdefault((grader["name"], grader["identity"]), []).append(grader["level"].replace(":", " "))
    shown: set[tuple[str, str]] = set()
    for grader in graders:
        key = (grader["name"], grader["identity"])
        if key in shown:
            continue
        shown.add(key)
        several = sum(name == grader["name"] for name, _ in places) > 1
        where = f"  ({one_line(', '.join(places[key]), limit=60)})" if several else ""
        model = f"  {one_line(grader['model'], limit=40)}" if grader["model"] else ""
        prompt = f"  prompt {grader['promptHash'][:SHOWN_IDENTITY]}" if grader["promptHash"] else ""
        identity = grader["identity"][:SHOWN_IDENTITY]
        yield f"    {one_line(grader['name'], limit=40):<24} {grader['type']} {identity}{model}{prompt}{where}"


def _read(folder: RunFolder) -> tuple[Trials, Verdicts]:
    trials: Trials = {}
    verdicts: Verdicts = defaultdict(dict)
    if not (folder.path / "results.json").is_file():
        return trials, verdicts
    for result in folder.case_results():
        for trial in result.trial_results or []:
            key = (result.variant, result.id, trial.trial)
            trials[key] = trial.passed
            for name, score in trial.scores.items():
                verdicts[name][key] = _verdict(score)
    return trials, verdicts


def _verdict(score: GraderScore) -> bool | None:
    return score.passed if score.counts else None


def _set(run: RunRecord, trials: Trials, verdicts: Verdicts) -> dict[str, Any]:
    variants: dict[str, dict[str, int]] = {
        variant.name: {"trials": 0, "scored": 0, "passed": 0} for variant in run.variants
    }
    for (variant, _, _), passed in trials.items():
        counts = variants[variant]
        counts["trials"] += 1
        counts["scored"] += passed is not None
        counts["passed"] += passed is True
    return {
        "runId": run.run_id,
        "createdAt": run.created_at,
        "phase": run.phases.grade,
        "partial": run.partial,
        "reusedFrom": run.grading.reused_from if run.grading is not None else None,
        "variants": variants,
        "graders": [
            {
                "name": grader.name or grader.type,
                "level": grader.level,
                "type": grader.type,
                "identity": grader.identity,
                "model": grader.model,
                "promptHash": grader.prompt_hash,
                "version": grader.version,
            }
            for grader in run.graders
        ],
        "verdicts": {name: _counted(found) for name, found in verdicts.items()},
    }


def _counted(found: Trials) -> dict[str, int]:
    return {
        "passed": sum(passed is True for passed in found.values()),
        "failed": sum(passed is False for passed in found.values()),
        "none": sum(passed is None for passed in found.values()),
    }


def _change(before: tuple[RunRecord, Trials, Verdicts], after: tuple[RunRecord, Trials, Verdicts]) -> dict[str, Any]:
    """What differs, over the trials that both graded."""
    shared = [key for key in before[1] if key in after[1]]
    flips = [key for key in shared if before[1][key] is not after[1][key]]
    return {
        "trials": len(shared),
        "up": sum(before[1][key] is False and after[1][key] is True for key in flips),
        "down": sum(before[1][key] is True and after[1][key] is False for key in flips),
        "gained": sum(before[1][key] is None for key in flips),
        "lost": sum(after[1][key] is None for key in flips),
        "flipCount": len(flips),
        "flips": [
            {"variant": key[0], "case": key[1], "trial": key[2], "before": before[1][key], "after": after[1][key]}
            for key in flips[:MAX_LISTED]
        ],
        "graders": {
            name: _grader_change(name, before, after)
            for name in {**dict.fromkeys(before[2]), **dict.fromkeys(after[2])}
        },
    }


def _grader_change(
    name: str, before: tuple[RunRecord, Trials, Verdicts], after: tuple[RunRecord, Trials, Verdicts]
) -> dict[str, Any]:
    if name not in before[2] or name not in after[2]:
        return {"state": "gone" if name in before[2] else "new"}
    then, now = before[2][name], after[2][name]
    both = [(then[key], now[key]) for key in then if now.get(key) is not None and then[key] is not None]
    same = _identities(name, before[0]) == _identities(name, after[0])
    return {
        "state": "same" if same else "changed",
        "both": len(both),
        "differ": sum(old is not new for old, new in both),
        "kappa": cohen_kappa([old for old, _ in both], [new for _, new in both]).kappa if both else None,
    }


def _identities(name: str, run: RunRecord) -> list[str]:
    """Identities of the graders behind a name in results, where the role stands before the name."""
    plain = name.removeprefix("judge.")
    return sorted(grader.identity for grader in run.graders if (grader.name or grader.type) == plain)


def _in_words(change: dict[str, Any]) -> str:
    if not change["flipCount"]:
        return f"every one of {change['trials']} trials came out the same"
    parts = [f"{change[name]} {word}" for name, word in WORDS.items() if change[name]]
    return f"of {change['trials']} trials {', '.join(parts)}"


WORDS = {
    "up": "now pass",
    "down": "now fail",
    "gained": "have a result that had none",
    "lost": "have none any more",
}


def _grader_in_words(grader: dict[str, Any]) -> str:
    if grader["state"] in {"gone", "new"}:
        return f"{grader['state']} in the second"
    what = "the same grader" if grader["state"] == "same" else "another identity"
    kappa = "" if grader["kappa"] is None else f", kappa {grader['kappa']:.2f}"
    return f"{what}; verdicts differ on {grader['differ']} of {grader['both']}{kappa}"


def _word(passed: bool | None) -> str:
    return "no result" if passed is None else "pass" if passed else "fail"
