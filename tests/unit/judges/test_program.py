from __future__ import annotations

import asyncio
import json
import sys

import pytest

from mst.config.files import IndexedFiles
from mst.errors import GraderError
from mst.judges.command import CommandJudge
from mst.judges.program import need_program
from mst.model.base import FileRef
from mst.model.case import GraderSpec
from mst.testing.judge import make_context, make_subject, write_files

TELLS = """
import json, os, sys
question = json.load(sys.stdin)
artifacts = question["trial"]["artifacts"]
facts = {
    "keys": sorted(question), "kind": question["kind"], "format": question["format"],
    "artifacts": artifacts and sorted(os.listdir(artifacts)),
    "cwd": sorted(os.listdir()), "mode": os.environ.get("MODE"),
    "arguments": sys.argv[1:], "response": question["trial"]["response"], "case": question["case"]["id"],
}
print(json.dumps({"score": 1, "metadata": facts}))
"""


def ask(tmp_path, options=None, **spec):
    files = IndexedFiles()
    refs = write_files(tmp_path / "judge", {"judge.py": TELLS, "data/prompt.md": "p"}, files)
    made = GraderSpec(
        type="command", files=refs, options={"argv": ["{{python}}", "judge.py", "a b; c"], **(options or {})}, **spec
    )
    subject = make_subject(tmp_path, files={"out.txt": "x"})
    return asyncio.run(CommandJudge(made).evaluate(subject, make_context(tmp_path, files))).metadata


def test_what_a_program_is_given(tmp_path):
    assert ask(tmp_path, {"env": {"MODE": "fast"}}) == {
        "keys": ["case", "format", "kind", "trial"],
        "kind": "trial",
        "format": "mst.judge/v1",
        "artifacts": ["out.txt"],
        "cwd": ["data", "judge.py"],
        "mode": "fast",
        "arguments": ["a b; c"],
        "response": "the answer",
        "case": "case-1",
    }


def test_artifacts_can_be_left_out(tmp_path):
    assert ask(tmp_path, {"artifacts": False})["artifacts"] is None


@pytest.mark.parametrize("name", ["./sub/judge", sys.executable, "sh", "{{python}}"])
def test_a_program_that_is_here_is_found(name):
    files = [FileRef(path="sub/judge", sha256="0" * 64, size=1)]
    need_program(name, GraderSpec(type="command", files=files))


@pytest.mark.parametrize(
    ("name", "fix"), [("no-such-judge", "install it"), ("./gone.sh", "under 'files'"), ("/no/such", "install it")]
)
def test_a_program_that_is_missing_is_named_with_the_fix(name, fix):
    with pytest.raises(GraderError, match=fix):
        need_program(name, GraderSpec(type="command"))


def test_the_question_is_utf8_json(tmp_path):
    files = IndexedFiles()
    source = "import sys, json; q = sys.stdin.buffer.read().decode(); print(json.dumps({'score': 1, 'reasoning': q}))"
    refs = write_files(tmp_path / "judge", {"judge.py": source}, files)
    spec = GraderSpec(type="command", files=refs, options={"argv": ["{{python}}", "judge.py"]})
    subject = make_subject(tmp_path, text="Caf\u00e9 \u2028 \U0001f600")
    found = asyncio.run(CommandJudge(spec).evaluate(subject, make_context(tmp_path, files)))
    assert json.loads(found.reasoning or "")["trial"]["response"] == "Caf\u00e9 \u2028 \U0001f600"
