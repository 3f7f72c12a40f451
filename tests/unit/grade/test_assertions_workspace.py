from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from mst.config.files import IndexedFiles
from mst.errors import GraderError
from mst.grade.assertions import ASSERTIONS, Assertion
from mst.model.base import FileRef
from mst.model.case import GraderSpec
from mst.testing.judge import make_context, make_subject, write_files

GRADERS = """
import os
from pathlib import Path

def good(ctx):
    assert ctx.case["expected"]["answer"] == "the answer" and ctx.variant and ctx.trial == 0
    return (ctx.workspace / "mod.py").read_text() == "x = 1\\n"

def mapping(ctx):
    return {"pass": False, "details": str(ctx.workspace / "mod.py"), "score": 0.25}

def nothing(ctx):
    pass

def runs(ctx):
    result = ctx.exec(["{{python}}", "-c", "import sys; print(open('mod.py').read()); sys.exit(3)"])
    return {"pass": result.exit_code == 3 and "x = 1" in result.stdout, "details": result.stderr}

def asks(ctx):
    try:
        ctx.query("select 1")
    except Exception:
        pass
    return True
"""


@pytest.fixture
def run(tmp_path):
    def grade(name: str, options, *, files=None, timeout_s: float = 20.0):
        index = IndexedFiles()
        spec = GraderSpec(type=name, files=write_files(tmp_path / "grader", files or {}, index))
        subject = make_subject(tmp_path, files={"mod.py": "x = 1\n", "sub/notes.txt": "Caf\u00e9"})
        assertion = ASSERTIONS[name]
        parsed = assertion.Options.model_validate(options)
        if isinstance(assertion, Assertion):
            return assertion.grade(subject, parsed)
        context = make_context(tmp_path, index, timeout_s=timeout_s)
        try:
            return asyncio.run(assertion.run(subject, parsed, spec, context))
        finally:
            assert not context.scratch.exists() or not list(context.scratch.iterdir())

    return grade


def test_file_exists_wants_every_path(run):
    assert run("file_exists", "mod.py").passed
    assert run("file_exists", {"value": ["mod.py", "sub/notes.txt"]}).passed
    assert run("file_exists", {"value": ["mod.py", "gone.txt"]}).details == 'no file "gone.txt"'


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../b"])
def test_paths_stay_inside_the_workspace(path):
    with pytest.raises(ValidationError):
        ASSERTIONS["file_exists"].Options.model_validate(path)


def test_file_contains_reads_the_export(run):
    assert run("file_contains", {"path": "sub/notes.txt", "text": "caf\u00e9", "ignore_case": True}).passed
    assert not run("file_contains", {"path": "sub/notes.txt", "text": "tea"}).passed
    assert run("file_contains", {"path": "gone", "text": "x"}).details == 'no file "gone"'


def test_file_contains_is_bounded(tmp_path):
    big = FileRef(path="big", sha256="0" * 64, size=11 * 1024**2)
    subject = make_subject(tmp_path)
    subject = type(subject)(
        case=subject.case,
        record=subject.record.model_copy(update={"artifact_files": [big]}),
        digest=subject.digest,
        artifacts=subject.artifacts,
    )
    assertion = ASSERTIONS["file_contains"]
    options = assertion.Options.model_validate({"path": "big", "text": "x"})
    with pytest.raises(GraderError, match="more than"):
        asyncio.run(assertion.run(subject, options, GraderSpec(type="file_contains"), make_context(tmp_path)))


def test_command_goes_by_the_exit_code(run):
    argv = ["{{python}}", "-c", "import mod, sys; sys.exit(mod.x)"]
    score = run("command", {"argv": argv})
    assert (score.passed, score.details) == (False, "exit code 1")
    assert run("command", {"argv": argv, "exit_code": [0, 1]}).passed


def test_command_says_the_programs_last_words_without_its_folder(run, tmp_path):
    score = run("command", ["{{python}}", "-c", "import os, sys; sys.exit('broken in ' + os.getcwd())"])
    assert score.details == "exit code 1: broken in workspace"


def test_command_finds_its_listed_files(run):
    options = {"argv": ["{{python}}", "{{files}}/check.py", "{{workspace}}/mod.py"]}
    check = "import sys; sys.exit(open(sys.argv[1]).read() != 'x = 1\\n')"
    assert run("command", options, files={"check.py": check}).passed


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["{{python}}", "-c", "while True: pass"], "did not end"),
        (["no-such-program-anywhere"], "no such program"),
    ],
)
def test_command_that_cannot_say_is_an_error(run, options, reason):
    with pytest.raises(GraderError, match=reason):
        run("command", options, timeout_s=0.3)


def test_python_returns_true_false_or_a_mapping(run):
    files = {"graders.py": GRADERS}
    assert run("python", "./graders.py:good", files=files).passed
    score = run("python", {"call": "./graders.py:mapping"}, files=files)
    assert (score.passed, score.details, score.score) == (False, "workspace/mod.py", 0.25)


def test_python_runs_programs_in_the_workspace(run):
    assert run("python", "./graders.py:runs", files={"graders.py": GRADERS}).passed


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("./graders.py:nothing", "neither true, false"),
        ("./graders.py:gone", "no attribute 'gone'"),
        ("./gone.py:fn", "no such file"),
        ("no_such_module:fn", "No module named"),
        ("./graders.py:asks", "asked for query"),
    ],
)
def test_python_that_cannot_say_is_an_error(run, call, reason):
    with pytest.raises(GraderError, match=reason):
        run("python", call, files={"graders.py": GRADERS})


@pytest.mark.parametrize("call", ["graders.py", "x y:fn", "./graders.py:", "os:system()"])
def test_a_target_that_names_no_function_is_refused(call):
    with pytest.raises(ValidationError, match="neither"):
        ASSERTIONS["python"].Options.model_validate(call)
