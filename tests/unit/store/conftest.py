"""A store in memory, a run folder, and facts about it."""

import hashlib
import uuid
from datetime import UTC, datetime

import pytest

from mst.model.run import LatestRecord
from mst.store import open_store
from mst.store.publish import RunFacts

RUN = "20260102T030405Z-abc123"


def make_run(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def sha(data):
    return hashlib.sha256(data).hexdigest()


def latest(run_id, collected_at):
    return LatestRecord(run_id=run_id, created_at=collected_at, collected_at=collected_at, path=f"runs/{run_id}")


@pytest.fixture
def store():
    return open_store(f"memory:{uuid.uuid4().hex}", patience_s=0)


@pytest.fixture
def facts():
    return RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True, counts={"trials": 2})


@pytest.fixture
def run_dir(tmp_path):
    files = {
        "run.json": b"{}",
        "transcripts/a/case/0.json": b"transcript 0",
        "transcripts/b/case/0.json": b"transcript 0",
        "artifacts/a/case/0/.gitignore": b"x",
        "artifacts/a/case/0/tool.sh": b"#!/bin/sh\n",
        "empty.txt": b"",
        ".lock": b"held",
    }
    folder = make_run(tmp_path / "run", files)
    (folder / "artifacts/a/case/0/tool.sh").chmod(0o755)
    return folder
