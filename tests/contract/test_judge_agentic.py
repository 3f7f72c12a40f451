from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mst.config.files import IndexedFiles
from mst.errors import GraderError
from mst.judges.agentic import AgenticJudge
from mst.judges.pairwise_agentic import AgenticPairwise
from mst.model.case import Case, GraderSpec
from mst.sandboxes.bwrap import Bwrap
from mst.sandboxes.options import SandboxOptions
from mst.testing.judge import (
    VARIANT,
    JudgeContract,
    ProgramPairwiseContract,
    make_context,
    make_subject,
    write_files,
)

AGENT = """
import json, os, pathlib, shutil, sys, time
behaviour = sys.argv[1]
task = sys.stdin.read()
here = pathlib.Path(".")
shown = [path for path in sorted(here.rglob("*")) if path.is_file() and "files" not in path.parts]
everything = task + repr({str(path): path.read_text() for path in shown})
response = lambda side: (here / side / "response.md").read_text()
verdicts = {
    "good": {"score": 0.75, "reasoning": "fine", "sub_scores": {"style": {"score": 0.5, "pass": True}}},
    "criteria": {"score": 0, "reasoning": "x", "sub_scores": {"1": {"score": 1}, "2": {"score": 0.5}}},
    "skips": {"skipped": True},
    "over": {"score": 1.5},
    "nan": {"score": float("nan")},
    "boolean": {"score": True},
    "no_score": {"pass": True},
    "environment": {"score": 1, "reasoning": " ".join(sorted(os.environ))},
    "vandal": {"score": 1},
    "first": {"preference": "first"},
    "other": {"preference": "left"},
    "strong": {"preference": "first", "strength": 2},
    "dimensions": {"preference": "first", "dimensions": {"style": {"preference": "second", "reasoning": "r"}}},
}
if behaviour == "vandal":
    for path in [here, *here.rglob("*")]:
        try:
            path.chmod(0o777)
        except OSError:
            pass
    shutil.rmtree("artifacts", ignore_errors=True)
if behaviour == "crashes":
    raise RuntimeError("broken judge in " + os.getcwd())
if behaviour == "hangs":
    time.sleep(60)
if behaviour == "garbage":
    print("I think it is quite good")
elif behaviour == "writes":
    try:
        pathlib.Path("artifacts/new.txt").write_text("x")
    except OSError:
        print(json.dumps({"score": 1, "reasoning": "refused"}))
    else:
        print(json.dumps({"score": 0, "reasoning": "written"}))
elif behaviour == "content":
    print(json.dumps({"preference": "first" if len(response("first")) > len(response("second")) else "second"}))
elif behaviour == "echo":
    print("I have read everything.")
    answer = {"preference": "first"} if (here / "first").exists() else {"score": 1}
    print(json.dumps({**answer, "reasoning": everything + os.getcwd()}))
else:
    print("Some thoughts first.\\n```json\\n" + json.dumps(verdicts[behaviour]) + "\\n```")
"""


def agent(behaviour: str, files: IndexedFiles, folder: Path, **options) -> GraderSpec:
    refs = write_files(folder, {"judge.py": AGENT}, files)
    argv = ["{{python}}", "{{files}}/judge.py", behaviour]
    return GraderSpec(type="agentic", options={"argv": argv, **options}, files=refs)


class TestAgenticJudge(JudgeContract):
    make = AgenticJudge

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return agent(behaviour, files, folder)


class TestAgenticPairwise(ProgramPairwiseContract):
    make = AgenticPairwise

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return agent(behaviour, files, folder)


def ask(tmp_path: Path, behaviour: str, subject=None, **options):
    files = IndexedFiles()
    judge = AgenticJudge(agent(behaviour, files, tmp_path / "judge", **options))
    subject = subject or make_subject(tmp_path, files={"out.txt": "left by the trial"}, diff="+changed")
    return asyncio.run(judge.evaluate(subject, make_context(tmp_path, files)))


def test_the_agent_finds_the_trial_as_files_and_a_task_with_the_rubric(tmp_path):
    found = ask(tmp_path, "echo", rubric="is it green?").reasoning
    for part in (
        "case.json",
        "response.md",
        "transcript/events.jsonl",
        "left by the trial",
        "+changed",
        "is it green?",
    ):
        assert part in found
    assert VARIANT not in found
    assert str(tmp_path) not in found


def test_criteria_of_the_case_decide_the_score(tmp_path):
    case = Case(id="c", dataset="d", input="q", expected={"criteria": ["a", "b"]})
    subject = make_subject(tmp_path, case=case)
    assert ask(tmp_path, "criteria", subject).score == 0.75
    with pytest.raises(GraderError, match="asked were 1 to 2"):
        ask(tmp_path, "good", subject)


def test_dimensions_are_mapped_and_must_all_be_there(tmp_path):
    files = IndexedFiles()
    one, two = make_subject(tmp_path, variant="v-one"), make_subject(tmp_path, variant="v-two")

    def compare(**options):
        judge = AgenticPairwise(agent("dimensions", files, tmp_path / "judge", **options))
        return asyncio.run(judge.compare(one, two, make_context(tmp_path, files), candidate_first=True))

    found = compare(dimensions=["style"])
    assert (found.preference, found.dimensions["style"]["preference"]) == ("candidate", "baseline")
    with pytest.raises(GraderError, match="does not compare depth"):
        compare(dimensions=["style", "depth"])


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root; the sandbox does, see the next test")
def test_the_folder_is_read_only(tmp_path):
    assert ask(tmp_path, "writes").reasoning == "refused"


def test_in_a_sandbox_the_folder_is_read_only_for_root_too(tmp_path):
    if faults := Bwrap(SandboxOptions(kind="bwrap")).faults():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("; ".join(faults))
    assert ask(tmp_path, "writes", sandbox={"kind": "bwrap"}).reasoning == "refused"


def test_the_folders_are_private_and_gone_afterwards(tmp_path):
    ask(tmp_path, "good")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_missing_agent_is_found_before_anything_is_asked(tmp_path):
    judge = AgenticJudge(GraderSpec(type="agentic", options={"argv": ["no-such-agent"]}))
    with pytest.raises(GraderError, match="no-such-agent"):
        asyncio.run(judge.preflight(make_context(tmp_path)))
