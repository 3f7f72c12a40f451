"""Graders that misbehave. Every one ends as a grading error, in bounded time, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mst.config.files import IndexedFiles
from mst.grade.contract import Grader
from mst.grade.live import Live
from mst.judges.contract import Finding
from mst.model.case import EvalPlan, GraderSpec, StageTimeouts, Variant
from mst.model.keys import TrialKey
from mst.model.score import GraderScore
from mst.process.redact import Redactor
from mst.testing.judge import make_subject, write_files

SECRET = "s3cr3t/with+signs&more"
MEMORY_BYTES = 256 * 1024**2


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = IndexedFiles()

    def grade(self, grader: Grader, *, score_s: float = 20.0) -> GraderScore:
        timeouts = StageTimeouts(score_s=score_s)
        plan = EvalPlan(
            name="e",
            config_id="c",
            content_hash="h",
            variants=[Variant(name="a")],
            baseline="a",
            stage_timeouts=timeouts,
        )
        secrets = {"JUDGE_KEY": SECRET}
        live = Live(
            plan,
            files=self.files,
            secrets=secrets,
            scratch=self.folder / "scratch",
            redactor=Redactor(secrets.values()),
            memory_bytes=MEMORY_BYTES,
        )
        key = TrialKey(variant="a", case_id="case-1", trial=0)
        subject = make_subject(self.folder, files={"mod.py": "x = 1\n"})
        score = asyncio.run(live.trial(key, subject, [grader])).scores[grader.name]
        assert list((self.folder / "scratch").iterdir()) == []
        assert str(self.folder) not in score.to_json().decode()
        return GraderScore.model_validate_json(score.to_json())

    def checks(self, source: str, **options: Any) -> GraderScore:
        refs = write_files(self.folder / "case", {"checks.py": source}, self.files)
        grader = Grader(name="checks", role="checks", spec=GraderSpec(type="checks", files=refs))
        return self.grade(grader, **options)

    def judge(self, source: str, **options: Any) -> GraderScore:
        refs = write_files(self.folder / "judge", {"judge.py": source}, self.files)
        argv = ["{{python}}", "judge.py"]
        spec = GraderSpec(type="command", options={"argv": argv}, files=refs, secrets=["JUDGE_KEY"])
        return self.grade(Grader(name="judge.j", role="judge", spec=spec), **options)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]
    except OSError:
        return False
    return state != "Z"


def wait_until_dead(pid: int) -> None:
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        os.sched_yield()
    assert not alive(pid)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def check(ctx):\n    while True: pass", "did not end within 1 s"),
        ("while True: pass", "did not end within 1 s"),
        ("import signal\nsignal.signal(15, signal.SIG_IGN)\ndef check(ctx):\n    while True: pass", "did not end"),
        ("import re\ndef check(ctx): re.match(r'(a|aa)+$', 'a' * 99 + 'b')", "did not end within 1 s"),
        ("import os\ndef check(ctx): os._exit(0)", "exit code 0 and without a result"),
        ("import os\ndef check(ctx): os.kill(os.getpid(), 9)", "exit code -9"),
        ("import sys\ndef check(ctx): sys.exit(0)", "SystemExit: 0"),
        ("def check(ctx): raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def check(ctx): return check(ctx)", "RecursionError"),
        ("def check(ctx): return {'checks': [], 'metrics': {'m': float('nan')}}", "not JSON compliant"),
        ("def check(ctx): return {'checks': [object()]}", "not JSON serializable"),
        ("def check(ctx): return {'checks': [], 'metrics': {'m': 10**400}}", "beyond 2^53"),
        ("def check(ctx): return {'checks': [{'name': chr(0xd800), 'passed': True}]}", "surrogate"),
        ("def check(ctx): return ['x' * 5_000_000]", "more than 4194304 bytes"),
        ("def check(ctx):\n    x = []\n    while True: x.append(bytearray(10**7))", "MemoryError"),
        ("def check(ctx):\n    while True: print('x' * 10**6)", "printed more than"),
        ("def check(): pass", "TypeError"),
        ("def other(ctx): pass", "no attribute 'check'"),
        ("def check(ctx:", "SyntaxError"),
        ("import sys\nsys.stdout.close(); sys.stderr.close()\ndef check(ctx): return 1", "must return a mapping"),
    ],
)
def test_a_scorer_that_misbehaves_is_a_grading_error(bench: Bench, source: str, reason: str) -> None:
    started = time.monotonic()
    score = bench.checks(source, score_s=1.0 if "did not end" in reason else 20.0)
    assert score.error is not None
    assert reason in score.error
    assert not score.passed
    assert time.monotonic() - started < 30


FORGER = """
import os, sys
def check(ctx):
    with open("forge.py", "w") as file:
        file.write(PROGRAM)
    os.system(f"{sys.executable} -I -S forge.py")
    return {"checks": [{"name": "own", "passed": False}]}
PROGRAM = '''
import os
for number in range(3, 256):
    try:
        os.write(number, b'{"result": {"checks": [{"name": "forged", "passed": true}]}}\\\\n')
    except OSError:
        pass
'''
"""


def test_a_program_that_a_scorer_starts_has_no_say(bench: Bench) -> None:
    score = bench.checks(FORGER)
    assert (score.error, score.passed) == (None, False)
    assert [check.name for check in score.checks] == ["own"]


def test_a_scorer_that_forks_has_one_say_and_leaves_nobody(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    source = f"""
import os, time
def check(ctx):
    if os.fork() == 0:
        os.setsid()
        open({str(place)!r}, "w").write(str(os.getpid()))
        time.sleep(60)
    while not os.path.exists({str(place)!r}):
        time.sleep(0.01)
    copy = os.fork()
    if copy == 0:
        return {{"checks": [{{"name": "forged", "passed": False}}]}}
    os.waitpid(copy, 0)  # it has returned by now
    return {{"checks": [{{"name": "a", "passed": True}}]}}
"""
    score = bench.checks(source)
    assert (score.error, score.passed) == (None, True)
    wait_until_dead(int(place.read_text()))


@pytest.mark.parametrize("swallow", [True, False])
def test_what_a_scorer_cannot_have_defers_it_even_when_it_swallows_the_error(bench: Bench, swallow: bool) -> None:
    body = "try:\n        ctx.query('x')\n    except Exception:\n        pass" if swallow else "ctx.get_client()"
    score = bench.checks(f"def check(ctx):\n    {body}\n    return {{'checks': [{{'name': 'a', 'passed': True}}]}}")
    assert score.deferred == (["query"] if swallow else ["get_client"])
    assert (score.passed, score.error) == (False, None)


def test_judgments_survive_a_scorer_that_dies_later(bench: Bench) -> None:
    source = "import os\ndef check(ctx):\n    ctx.add_judgment(name='tone', score=1)\n    os._exit(1)"
    score = bench.checks(source)
    assert score.error is not None
    assert score.judgments == [{"name": "tone", "score": 1.0}]


@pytest.mark.parametrize("message", [b"garbage", b'{"result": ', b'{"unknown": 1}', b'{"exec": "rm"}', b"[]", b"\xff"])
def test_a_scorer_that_writes_to_the_private_channel_breaks_only_itself(bench: Bench, message: bytes) -> None:
    source = f"import os, sys\ndef check(ctx):\n    os.write(int(sys.argv[1]), {message!r} + b'\\n')\n    return 1"
    score = bench.checks(source)
    assert score.error is not None
    assert "not usable" in score.error


def test_programs_that_a_scorer_runs_are_bounded(bench: Bench) -> None:
    source = """
def check(ctx):
    slow = ctx.exec(["{{python}}", "-c", "while True: pass"], timeout_s=0.3)
    large = ctx.exec(["{{python}}", "-c", "x = bytearray(10**9)"])
    try:
        ctx.exec(["no-such-program-anywhere"])
    except OSError as error:
        gone = "no such program" in str(error)
    facts = {"slow": slow.timed_out, "large": "MemoryError" in large.stderr, "gone": gone}
    return {"checks": [{"name": name, "passed": passed} for name, passed in facts.items()]}
"""
    assert bench.checks(source).details == "3 graded checks passed"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("while True: pass", "did not end within 1 s"),
        ("while True: print('x' * 10**6)", "printed more than"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 11)", "exit code -11"),
        ("pass", "not JSON"),
        ("print('{\"score\": NaN}')", "not finite"),
        ("print('{\"score\": 1e999}')", "not finite"),
        ("print('{\"score\": 2}')", "score"),
        ('print(\'{"score": "1"}\')', "score"),
        ('print(\'{"score": 1, "reason": "typo"}\')', "reason"),
        ("print('{\"score\": 1}' * 2)", "not JSON"),
        ("print('[' * 100000)", "nested too deeply"),
        ("print('[1]')", "must be a mapping"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "not UTF-8"),
        ('print(\'{"score": 1, "reasoning": "\\\\ud800"}\')', "surrogate"),
    ],
)
def test_a_judge_that_misbehaves_is_a_grading_error(bench: Bench, source: str, reason: str) -> None:
    score = bench.judge(source, score_s=1.0 if "did not end" in reason else 20.0)
    assert score.error is not None
    assert reason in score.error


def test_a_secret_in_a_judges_words_is_redacted_in_every_field(bench: Bench) -> None:
    source = """
import base64, json, os, urllib.parse
key = os.environ["JUDGE_KEY"]
forms = " ".join([key, base64.b64encode(key.encode()).decode(), urllib.parse.quote(key, safe="")])
print(json.dumps({"score": 1, "reasoning": forms, "metadata": {"deep": [forms]}, "model": key,
                  "sub_scores": {"a": {"score": 1, "reasoning": forms}}}))
"""
    score = bench.judge(source)
    text = score.to_json().decode()
    assert score.passed
    assert "[redacted]" in text
    assert SECRET not in text
    assert "s3cr3t" not in text
    assert "czNjcjN0" not in text


def test_a_secret_that_the_cut_of_the_last_words_would_split_is_redacted_whole(bench: Bench) -> None:
    source = "import os, sys; sys.exit(os.environ['JUDGE_KEY'] + 'x' * (500 - 10))"
    score = bench.judge(source)
    assert score.error is not None
    assert SECRET[-5:] not in score.error


def test_a_judge_whose_process_group_outlives_it_is_swept(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    source = f"""
import json, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
open({str(place)!r}, "w").write(str(child.pid))
print(json.dumps({{"score": 1}}))
"""
    assert bench.judge(source).passed
    wait_until_dead(int(place.read_text()))


class Rogue:
    """A plugin's judge that breaks its contract."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, spec: GraderSpec) -> Rogue:
        return self

    async def evaluate(self, *_: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (RuntimeError("broken"), "RuntimeError: broken"),
        (RuntimeError("half \ud800"), "RuntimeError: half \ufffd"),
        (Finding(), "no score"),
        (Finding(score=float("nan")), "no score"),
        (Finding(score=7), "not between 0 and 1"),
        (Finding(score=1, metadata={"x": float("inf")}), "cannot be stored"),
        (Finding(score=1, metadata={"x": object()}), "cannot be stored"),
        (Finding(score=1, reasoning="\ud800"), "cannot be stored"),
        (None, "AttributeError"),
    ],
)
def test_a_plugins_judge_that_breaks_its_contract_is_a_grading_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, answer: Any, reason: str
) -> None:
    (bench.folder / "scratch").mkdir()
    monkeypatch.setattr("mst.grade.caller.lookup", lambda kind, name: Rogue(answer))
    score = bench.grade(Grader(name="judge.r", role="judge", spec=GraderSpec(type="acme/judge/rogue")))
    assert score.error is not None
    assert reason in score.error
    assert score.to_json()
