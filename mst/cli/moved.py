"""Where `mst attach` goes on: where the run was begun, unless the user says now that it is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mst.cli.grading import known_options, options_again
from mst.cli.progress import say
from mst.config.settings import Settings, variable
from mst.errors import UsageError
from mst.model.run import RunRecord
from mst.runs.folder import RunFolder


def options_now(
    name: str, recorded: Mapping[str, Any] | None, given: Mapping[str, str], *, told: bool = True
) -> dict[str, str]:
    """A runner's options to go on with: those given now, then broker and store of the environment, then the recorded.

    Options that only another runner of the run has are left out.

    Args:
        told: say what differs from the record.
    """
    from mst.fleet.connect import without_password
    from mst.store.uri import for_record

    options = options_again(name, recorded)
    settings = Settings.from_environment()
    for key, setting, now, shown in (
        ("broker", "broker_url", settings.broker_url, without_password),
        ("store", "store", settings.store, for_record),
    ):
        before = options.get(key)
        if key in given or before is None or now is None or shown(now) == before:
            continue
        del options[key]
        if told:
            say(f"the {key} is {shown(now)} now ({variable(setting)}); {before} is what was recorded")
    return options | {key: value for key, value in given.items() if key in known_options(name)}


def refuse_unfit(folder: RunFolder, given: Mapping[str, str]) -> None:
    """Refuse options that no runner of a run has, and a store that is not the one that its shards were sent through.

    Raises:
        UsageError: saying which.
    """
    run = folder.run()
    runners = [(run.environment.name, run.environment.options)] if run.graded_from is None else []
    runners += [(run.grading.runner.name, run.grading.runner.options)] if run.grading is not None else []
    known = list(dict.fromkeys(key for name, _ in runners for key in known_options(name)))
    for key in given:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"--runner-option {key}: what {run.run_id} runs on has no such option; {has}")
    now = given.get("store") or Settings.from_environment().store
    for _, recorded in runners:
        before = (recorded or {}).get("store")
        if before is not None and now is not None:
            _refuse_other_store(folder, run, str(before), now)


def _refuse_other_store(folder: RunFolder, run: RunRecord, before: str, now: str) -> None:
    """In another store nothing that was finished would be found, and all of it would be paid again."""
    from mst.store.layout import RunKeys
    from mst.store.uri import for_record, open_store, redacted

    sent = {path.name for path in folder.work.glob("d*")}
    if for_record(now) == before or not sent:
        return
    there = open_store(now).list_folder(RunKeys(run.eval_name, run.run_id).dispatches).folders
    if sent.isdisjoint(there):
        raise UsageError(
            f"{run.run_id}: {redacted(now)} has none of the shards that were sent; they went through {before}: "
            "unset MST_STORE, or name the store in which they are now"
        )
