"""Which cases of an eval's latest run failed or broke down: what `mst run --only` makes a new, narrowed run of."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mst.errors import CorruptFile, FormatError, UsageError
from mst.model.results import CaseResult
from mst.runs.folder import RunFolder
from mst.runs.latest import read_latest
from mst.runs.locate import eval_folder

STATES = ("errors", "failed")


def last_graded(eval_name: str, root: Path) -> RunFolder | None:
    """The eval's latest run, or the newest graded one when none became it; None: there is none."""
    home = eval_folder(root, eval_name)
    try:
        latest = read_latest(home / "latest.json")
    except (CorruptFile, FormatError):
        latest = None
    newest = sorted((path.parent for path in home.glob("runs/*/summary.json")), reverse=True)
    for path in ([home / latest.path] if latest is not None else []) + newest:
        if (path / "summary.json").is_file() and (path / "run.json").is_file():
            return RunFolder(path)
    return None


def cases_in(folder: RunFolder, states: Collection[str]) -> list[str]:
    """The cases of a graded run that are in one of the states, for any variant, in their order. Reads as a stream.

    `failed`: a trial did not pass. `errors`: a trial is missing, broke down, or a grader owes it a verdict.

    Raises:
        UsageError: no case is.
    """
    found = dict.fromkeys(result.id for result in folder.case_results() if _is_in(result, states))
    if not found:
        words = " ".join(f"--only {state}" for state in sorted(set(states)))
        raise UsageError(f"{folder.run_id}: no case is left by {words}; nothing to run")
    return list(found)


def _is_in(result: CaseResult, states: Collection[str]) -> bool:
    trials = result.trial_results or []
    if "failed" in states and (result.passed is False or any(trial.passed is False for trial in trials)):
        return True
    if "errors" not in states:
        return False
    owed = result.grading_error or any(trial.grading_error for trial in trials)
    broke = any(trial.is_infrastructure_error or trial.failure_kind for trial in trials)
    return bool(owed or broke)
