from __future__ import annotations

from pathlib import Path

from mst.config.files import IndexedFiles
from mst.judges.command import CommandJudge
from mst.judges.pairwise_command import CommandPairwise
from mst.model.case import GraderSpec
from mst.testing.judge import JudgeContract, ProgramPairwiseContract, write_files

JUDGE = """
import json, os, shutil, sys, time
behaviour = sys.argv[1]
question = json.load(sys.stdin)
verdicts = {
    "good": {"score": 0.75, "reasoning": "fine", "subScores": {"style": {"score": 0.5, "pass": True}}},
    "skips": {"skipped": True},
    "over": {"score": 1.5},
    "nan": {"score": float("nan")},
    "boolean": {"score": True},
    "no_score": {"pass": True},
    "echo": {"score": 1, "reasoning": json.dumps(question) + os.getcwd()},
    "environment": {"score": 1, "reasoning": " ".join(sorted(os.environ))},
    "vandal": {"score": 1},
    "content": {"preference": "first" if len(question.get("first", {}).get("response", "")) > 5 else "second"},
    "first": {"preference": "first"},
    "other": {"preference": "left"},
    "strong": {"preference": "first", "strength": 2},
}
if behaviour == "vandal":
    shutil.rmtree(question["trial"]["artifacts"])
if behaviour == "crashes":
    raise RuntimeError("broken judge in " + os.getcwd())
if behaviour == "hangs":
    time.sleep(60)
if behaviour == "garbage":
    print("I think it is quite good")
elif behaviour == "echo" and "first" in question:
    print(json.dumps({"preference": "first", "reasoning": json.dumps(question)}))
else:
    print(json.dumps(verdicts[behaviour]))
"""


def program(behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
    refs = write_files(folder, {"judge.py": JUDGE}, files)
    return GraderSpec(type="command", options={"argv": ["{{python}}", "judge.py", behaviour]}, files=refs)


class TestCommandJudge(JudgeContract):
    make = CommandJudge

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return program(behaviour, files, folder)


class TestCommandPairwise(ProgramPairwiseContract):
    make = CommandPairwise

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return program(behaviour, files, folder)
