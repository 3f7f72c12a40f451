"""A small eval of real programs in which everything happens that grading can come to: for tests of what grades it.

Three variants of a command, six cases, two trials, assertions, a case's checks, a judge that breaks on one case, one
that is skipped where an answer is missing, a pairwise judge that breaks on one case and prefers by position on another,
and `smaller_diff`. Each judge call leaves its key in a folder of marks, so that a test can tell what was asked twice.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

BROKEN_CASE = "c3"
UNANSWERED_CASES = ("c2", "c5")
BROKEN_COMPARISON = "c4"
BIASED_COMPARISON = "c5"
NOTES = {
    "c1": "teh first note\n",
    "c2": "teh second note, which we recieve  twice\n",
    "c3": "teh third\nand a line\n",
    "c4": "nothing to mend here\n",
    "c5": "recieve teh last  but one\n",
    "c6": "we recieve\n",
}
UNIQUE = "od -An -N8 -tx1 /dev/urandom | tr -d ' \\n'"

JUDGE = r'''
import json, os, signal, sys
marks, name = sys.argv[1:3]
question = json.load(sys.stdin)
case = question["case"]["id"]
sides = [question[part] for part in ("trial", "first", "second") if part in question]
key = " ".join([name, case, *(side["response"].split()[-1] for side in sides)])
log = os.open(os.path.join(marks, "calls"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.write(log, (key + "\n").encode())

def ask(what):
    """Whether a test asked for this, which it does by a file that one call takes away."""
    for asked in (f"{what}-{name}-{case}", f"{what}-{name}-{case}-again"):
        try:
            os.rename(os.path.join(marks, asked), os.path.join(marks, "done-" + asked))
            return True
        except FileNotFoundError:
            pass
    return False

if ask("kill-worker"):
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
if ask("hang"):
    open(os.path.join(marks, "hanging"), "w").write(str(os.getpid()))
    signal.pause()
if ask("wait"):
    open(os.path.join(marks, "waiting"), "w").write(str(os.getpid()))
    open(os.path.join(marks, "go")).read()  # a pipe: returns when the test has opened and closed its other end
if case == os.environ.get("BROKEN") and not os.path.exists(os.path.join(marks, "mended")):
    sys.exit("this judge cannot read " + case)
if len(sides) == 1:
    found = sides[0]["diff"] or ""
    print(json.dumps({"score": 1.0 if "+the" in found or "receive" in found else 0.25, "reasoning": case}))
elif case == os.environ.get("BIASED"):
    print(json.dumps({"preference": "first"}))
else:
    lengths = [len(side["diff"] or "") for side in sides]
    order = (lengths[0] > lengths[1]) - (lengths[0] < lengths[1])
    print(json.dumps({"preference": {1: "first", -1: "second", 0: "tie"}[order], "strength": 0.5}))
'''

CHECKS = r"""
def check(ctx):
    text = (ctx.workspace / "note.txt").read_text()
    return {
        "checks": [
            {"name": "spelled", "passed": "recieve" not in text},
            {"name": "informed", "passed": False, "graded": False, "detail": "for information"},
        ],
        "metrics": {"length": float(len(text)), "unknown": None},
    }
"""


def write_sample_eval(folder: Path, marks: Path, *, concurrency: int = 4, trials: int = 2) -> Path:
    """Write the eval below a folder and return the path of its config. Judges leave their marks in `marks`."""
    marks.mkdir(parents=True, exist_ok=True)
    for case_id, note in NOTES.items():
        home = folder / "cases" / case_id
        (home / "files").mkdir(parents=True)
        (home / "files" / "note.txt").write_text(note)
        (home / "case.yaml").write_text(yaml.safe_dump(_case(case_id)))
    (folder / "cases" / "c2" / "checks.py").write_text(CHECKS)
    (folder / "judge.py").write_text(JUDGE)
    config = folder / "eval.yaml"
    config.write_text(yaml.safe_dump(_config(marks, concurrency, trials), sort_keys=False))
    return config


def _case(case_id: str) -> dict[str, Any]:
    case: dict[str, Any] = {"input": f"mend {case_id}", "tags": ["regression"] if case_id == "c1" else ["plain"]}
    if case_id not in UNANSWERED_CASES:
        case["expected"] = {"answer": "the"}
    return case


def _config(marks: Path, concurrency: int, trials: int) -> dict[str, Any]:
    return {
        "name": "sample",
        "datasets": [{"dir": "cases"}],
        "client": "command",
        "client_options": {"input": "none"},
        "trials": trials,
        "concurrency": concurrency,
        "baseline": "base",
        "variants": [
            _variant("base", "sed -i s/teh/the/ note.txt"),
            _variant("more", "sed -i 's/teh/the/;s/recieve/receive/;s/  / /' note.txt"),
            _variant("noisy", "echo more >> note.txt; echo extra > new.txt"),
        ],
        "assertions": [
            {"file_contains": {"path": "note.txt", "text": "e"}},
            {"not_contains_text": "error"},
            {"name": "there", "file_exists": "note.txt"},
        ],
        "judges": [
            {"name": "reader", "command": _judge(marks, "reader", BROKEN=BROKEN_CASE), "threshold": 0.5},
            {"name": "answers", "command": _judge(marks, "answers"), "requires": ["case.expected.answer"]},
        ],
        "pairwise_judges": [
            {"name": "taste", "command": _judge(marks, "taste", BROKEN=BROKEN_COMPARISON, BIASED=BIASED_COMPARISON)},
            {"name": "smaller", "smaller_diff": {}},
        ],
    }


def _variant(name: str, script: str) -> dict[str, Any]:
    return {"name": name, "client_options": {"argv": ["sh", "-c", f"{script}; {UNIQUE}"]}}


def _judge(marks: Path, name: str, **env: str) -> dict[str, Any]:
    argv = ["{{python}}", "-I", "-S", "judge.py", str(marks), name]
    return {"argv": argv, "files": ["judge.py"], "env": env}


def calls(marks: Path) -> Counter[str]:
    """How often each judge was asked about each trial or pair, by `<judge> <case> <answers>`."""
    path = marks / "calls"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def answers(run: Path) -> dict[str, str]:
    """The answer of each trial of a run folder, which occurs in the keys of `calls`, by `<variant>/<case>/<trial>`."""
    found = {}
    for path in sorted((run / "transcripts").glob("*/*/*.json")):
        record = json.loads(path.read_bytes())
        found[f"{record['variant']}/{record['caseId']}/{record['trial']}"] = record["transcript"]["finalText"].split()[
            -1
        ]
    return found
