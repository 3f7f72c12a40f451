from __future__ import annotations

from pathlib import Path

from mst.config.files import IndexedFiles
from mst.judges.pairwise_python import PythonPairwise
from mst.judges.python import PythonJudge
from mst.model.case import GraderSpec
from mst.testing.judge import JudgeContract, ProgramPairwiseContract, write_files

JUDGE = """
import json, os, shutil, time

def good(ctx):
    return {"score": 0.75, "reasoning": "fine", "sub_scores": {"style": {"score": 0.5}}}
def skips(*sides):
    return {"skipped": True}
def over(ctx):
    return 1.5
def nan(ctx):
    return float("nan")
def boolean(ctx):
    return True
def no_score(ctx):
    return {"pass": True}
def echo(*sides):
    everything = repr([vars(side) for side in sides])
    if len(sides) == 1:
        return {"score": 1, "reasoning": everything}
    return {"preference": "first", "reasoning": everything}
def environment(ctx):
    return {"score": 1, "reasoning": " ".join(sorted(os.environ))}
def vandal(ctx):
    shutil.rmtree(ctx.workspace)
    return 1
def crashes(*sides):
    raise RuntimeError("broken judge in " + os.getcwd())
def hangs(*sides):
    while True:
        pass
def garbage(*sides):
    return object()
def content(first, second):
    return "first" if len(first.final_text) > len(second.final_text) else "second"
def first(first, second):
    return "first"
def other(first, second):
    return "left"
def strong(first, second):
    return {"preference": "first", "strength": 2}
"""


def function(behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
    refs = write_files(folder, {"judge.py": JUDGE}, files)
    return GraderSpec(type="python", options={"call": f"./judge.py:{behaviour}"}, files=refs)


class TestPythonJudge(JudgeContract):
    make = PythonJudge

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return function(behaviour, files, folder)


class TestPythonPairwise(ProgramPairwiseContract):
    make = PythonPairwise

    def spec(self, behaviour: str, files: IndexedFiles, folder: Path) -> GraderSpec:
        return function(behaviour, files, folder)
