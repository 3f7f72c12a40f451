"""The folder that an agentic judge reads: a case and its trials as files, readable and no more, removed after the call.

    case.json            input, expected, tags, metadata
    response.md          the final answer
    diff.patch           when the trial had a workspace
    transcript/          events.jsonl, and end.json: how it ended, and how far it can be trusted
    artifacts/           what the trial left
    files/               the judge's own files

In a comparison `first/` and `second/` each hold what a trial has, laid out alike; nothing says which is whose.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mst.config.files import FileSource
from mst.judges.contract import Subject
from mst.judges.folder import CallFolder
from mst.judges.view import case_view, trial_view
from mst.model.base import FileRef
from mst.process.finishing import in_thread

WORKSPACE = "workspace"
SIDES = ("first", "second")


async def lay_out(
    folder: CallFolder,
    subjects: Sequence[Subject],
    files: Sequence[FileRef],
    source: FileSource,
    *,
    max_tool_output: int | None,
) -> Path:
    """Write one trial, or two for a comparison, and take away every permission to write. Returns the folder.

    Raises:
        ObjectMissing, DigestMismatch: see `mst.config.files.place`.
    """
    root = folder.root / WORKSPACE
    root.mkdir(mode=0o700)
    await folder.place(files, source, f"{WORKSPACE}/files")
    for name, subject in zip(SIDES if len(subjects) > 1 else ("",), subjects, strict=True):
        await folder.place(
            subject.artifact_files, subject.artifacts, f"{WORKSPACE}/{name}/artifacts".replace("//", "/")
        )
        await in_thread(_write_trial, root / name, subject, max_tool_output)
    await in_thread(_finish, root, subjects[0])
    return root


def _write_trial(into: Path, subject: Subject, max_tool_output: int | None) -> None:
    view = trial_view(subject, max_tool_output=max_tool_output)
    transcript = into / "transcript"
    transcript.mkdir(parents=True)
    (into / "response.md").write_text(view["response"], encoding="utf-8", errors="replace")
    if view["diff"] is not None:
        (into / "diff.patch").write_text(view["diff"], encoding="utf-8", errors="replace")
    with (transcript / "events.jsonl").open("w", encoding="utf-8", errors="replace") as lines:
        for event in view["transcript"]["events"]:
            lines.write(json.dumps(event, ensure_ascii=False) + "\n")
    _json(transcript / "end.json", {"error": view["error"], "evidence": view["evidence"]})


def _finish(root: Path, subject: Subject) -> None:
    _json(root / "case.json", case_view(subject.case))
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o444)


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1, default=str), encoding="utf-8", errors="replace")
