from __future__ import annotations

import io
import json
import sys
import textwrap

import click
import pytest
from click.testing import CliRunner

from mst.cli import validate as cli
from mst.cli.validation import validate
from mst.errors import ConfigError

CONFIG = """
name: upper
datasets: [cases.yaml]
client: command
client_options: {input: none}
variants:
  - {name: one, client_options: {argv: ["{{python}}", "-c", "print(1)"]}}
  - {name: "[two]", client_options: {argv: ["{{python}}", "-c", "print(2)"]}}
"""
SOUND = """
- {id: good, expected: {answer: x}, assertions: [{equals: x}]}
"""
CASES = """
- {id: good, expected: {answer: x}, assertions: [{equals: x}]}
- {id: wrong-answer, expected: {answer: x}, assertions: [{equals: y}, {contains_text: z}]}
- {id: passes-anyhow, expected: {answer: x}, assertions: [{not_contains_text: q}]}
- {id: no-reference, assertions: [{equals: x}]}
- {id: ungraded, expected: {answer: x}}
- {id: tools, expected: {answer: x}, assertions: [{tools_triggered: [{name: t}]}]}
- {id: leave-it, kind: stay_quiet, expected: {answer: ""}, assertions: [{equals: ""}]}
- {id: broken-setup, expected: {answer: x}, setup: [[no-such-program-here]], assertions: [{equals: x}]}
"""


@pytest.fixture
def config(tmp_path):
    def write(config: str = CONFIG, cases: str = SOUND):
        (tmp_path / "cases.yaml").write_text(cases)
        path = tmp_path / "eval.yaml"
        path.write_text(textwrap.dedent(config))
        return path

    return write


def run(*arguments):
    return CliRunner().invoke(cli.command, [str(argument) for argument in arguments])


def verdicts(found, stand_in):
    return {check.case_id: check.verdict for check in found.checks[stand_in]}


def test_a_sound_eval_is_ready_and_says_what_differs_and_what_is_needed(config):
    result = run(config(), "--oracle", "--noop")
    assert result.exit_code == 0, result.output
    assert "upper: 2 variants, 1 case, 2 trials" in result.stdout
    assert "client_options.argv\n  one (baseline): " in result.stdout
    assert "at least 6 cases" in result.stdout
    assert "With 1 case no verdict is possible" in result.stdout
    assert "oracle: 1 of 1 cases" in result.stdout
    assert result.stdout.rstrip().endswith("ready")


def test_a_judge_that_cannot_be_made_is_named_once(config):
    result = run(config(CONFIG + "judges: [{name: nice, rubric: Is it nice?}]\n"))
    assert [line for line in result.stderr.splitlines() if "nice" in line] == [
        "mst: judge.nice: 'model' is missing: which model judges, as in 'openai:NAME' or 'anthropic:NAME'"
    ]


def test_the_oracle_finds_every_faulty_case_at_once(config):
    found = validate(config(cases=CASES), ["oracle"], None)
    assert verdicts(found, "oracle") == {
        "good": "1.0",
        "wrong-answer": "FAILED",
        "passes-anyhow": "1.0",
        "no-reference": "MISSING",
        "ungraded": "FAILED",
        "tools": "deferred",
        "leave-it": "1.0",
        "broken-setup": "FAILED",
    }
    details = {check.case_id: check.detail for check in found.checks["oracle"]}
    assert details["wrong-answer"].count(";") == 1
    assert "equals" in details["wrong-answer"]
    assert "contains_text" in details["wrong-answer"]
    assert "nothing grades this case" in details["ungraded"]
    assert "no-such-program-here" in details["broken-setup"]
    assert found.exit_code(strict=False) == 1


def test_a_case_that_the_oracle_cannot_show_anything_of_is_deferred_and_a_missing_answer_says_what_to_do(config):
    cases = (
        "- {id: tools, assertions: [{tools_triggered: [{name: t}]}]}\n"
        "- {id: judged, judges: [{name: j, command: {argv: ['{{python}}']}}]}\n"
        "- {id: text, assertions: [{contains_text: x}, {tools_triggered: [{name: t}]}]}\n"
    )
    found = validate(config(cases=cases), ["oracle"], None)
    assert verdicts(found, "oracle") == {"tools": "deferred", "judged": "deferred", "text": "MISSING"}
    details = [check.detail for check in found.checks["oracle"]]
    assert "calls no tools" in details[0]
    assert "only judges grade this case" in details[1]
    assert details[2].endswith("; write down a right answer, or check this eval with --noop alone")


def test_doing_nothing_must_fail_a_change_and_pass_where_nothing_is_to_be_done(config):
    found = validate(config(cases=CASES), ["noop"], None)
    checked = verdicts(found, "noop")
    assert checked["passes-anyhow"] == "FAILED"
    assert checked["leave-it"] == checked["good"] == checked["tools"] == "1.0"
    loud = "- {id: loud, kind: stay_quiet, assertions: [{contains_text: done}]}\n"
    assert verdicts(validate(config(cases=loud), ["noop"], None), "noop") == {"loud": "FAILED"}


def test_deferred_cases_fail_only_when_strict(config):
    path = config(cases="- {id: tools, expected: {answer: x}, assertions: [{tools_triggered: [{name: t}]}]}\n")
    assert run(path, "--oracle").exit_code == 0
    strict = run(path, "--oracle", "--strict")
    assert strict.exit_code == 1
    assert "deferred" in strict.stdout


def test_checks_run_on_the_solution_and_name_what_fails(config, tmp_path):
    for name, content in (("good", "fixed"), ("bad", "broken")):
        folder = tmp_path / "cases" / name
        for part, text in (("files/a.txt", "broken"), ("solution/a.txt", content), ("case.yaml", "")):
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / part).write_text(text)
        (folder / "checks.py").write_text(
            "def check(ctx):\n"
            "    text = (ctx.workspace / 'a.txt').read_text()\n"
            "    return {'checks': [{'name': 'is-fixed', 'passed': text == 'fixed', 'detail': text}]}\n"
        )
    found = validate(config(CONFIG.replace("[cases.yaml]", "[cases]")), ["oracle", "noop"], None)
    assert verdicts(found, "oracle") == {"good": "1.0", "bad": "FAILED"}
    assert verdicts(found, "noop") == {"good": "1.0", "bad": "1.0"}
    assert "is-fixed (broken)" in found.checks["oracle"][0].detail


def test_judges_are_never_asked(config, tmp_path):
    (tmp_path / "judge.py").write_text("raise SystemExit('a judge was paid')\n")
    text = CONFIG + "judges: [{name: j, command: {argv: ['{{python}}', judge.py], files: [judge.py]}}]\n"
    found = validate(config(text, cases="- {id: a, expected: {answer: x}}\n"), ["oracle"], None)
    assert found.checks["oracle"][0].verdict == "deferred"
    assert "only judges" in found.checks["oracle"][0].detail


def test_programs_that_are_not_there_are_refused_with_exit_code_2(config):
    text = CONFIG.replace('["{{python}}", "-c", "print(2)"]', "[no-such-program-here]")
    result = run(config(text), "--oracle")
    assert result.exit_code == 2
    assert "mst: variant [two]: " in result.stderr
    assert "no-such-program-here" in result.stderr
    assert "oracle:" not in result.stdout


def test_missing_secrets_and_programs_are_reported_together(config, monkeypatch):
    monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
    text = CONFIG.replace('["{{python}}", "-c", "print(2)"]', "[no-such-program-here]") + "secrets: [NO_SUCH_SECRET]\n"
    result = run(config(text))
    assert result.exit_code == 2
    assert "'NO_SUCH_SECRET' is needed: pass it with --secrets-file" in result.stderr
    assert "no-such-program-here" in result.stderr


def test_a_case_that_nothing_grades_is_warned_of_without_a_stand_in(config):
    cases = "[{id: good, expected: {answer: x}, assertions: [{equals: x}]}, {id: ungraded}, {id: also}]"
    result = run(config(cases=cases))
    assert result.exit_code == 0
    assert "nothing grades 2 of 3 cases (ungraded, also): give them assertions, checks or a judge" in result.output
    assert "nothing grades" not in run(config()).output
    assert "nothing grades" in json.loads(run(config(cases=cases), "--json").stdout)["warnings"][-1]


def test_checks_that_are_no_python_are_refused_with_their_place(tmp_path):
    case = tmp_path / "cases" / "one"
    case.mkdir(parents=True)
    (case / "case.yaml").write_text("input: x")
    (case / "checks.py").write_text("import os\ndef check(\n")
    path = tmp_path / "eval.yaml"
    path.write_text(CONFIG.replace("[cases.yaml]", "[{dir: cases}]"))
    result = run(path)
    assert result.exit_code == 2
    assert "mst: case one: checks.py:2: '(' was never closed" in result.stderr
    assert "ready" not in result.output
    (case / "checks.py").write_bytes(b"\xff")
    assert "mst: case one: checks.py" in run(path).stderr


def test_json_is_one_document_with_every_check(config):
    result = run(config(cases=CASES), "--oracle", "--noop", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["variants"] == ["one", "[two]"]
    assert document["differences"][0]["field"] == "client_options.argv"
    assert {check["caseId"] for check in document["checks"]["oracle"] if check["faulty"]} == {
        "wrong-answer",
        "no-reference",
        "ungraded",
        "broken-setup",
    }


def test_a_config_with_faults_raises_them_all(config):
    with pytest.raises(ConfigError) as caught:
        validate(config(CONFIG + "trails: 3\nconcurency: 1\n"), [], None)
    assert len(caught.value.faults) == 2


def test_differences_are_the_same_lines_on_a_terminal_as_elsewhere(config, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    said = []
    for screen in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stdout", screen)
        monkeypatch.setenv("COLUMNS", "120")
        cli.print_differences(validate(config(), [], None))
        said.append(click.unstyle(screen.getvalue()))
    assert said[0] == said[1]
    assert "[two]: " in said[0]
    assert "  one (baseline): " in said[0]


def test_what_looks_like_a_credential_is_not_shown(config):
    text = CONFIG.replace(
        "- {name: one, client_options: {", "- {name: one, client_options: {env: {API_TOKEN: planted-value}, "
    )
    result = run(config(text))
    assert "looks like a credential" in result.stderr
    assert "planted-value" not in result.output + result.stderr


def test_cases_that_are_faulty_for_one_reason_are_one_line(config):
    many = "".join(f"- {{id: c{number}, assertions: [{{equals: x}}]}}\n" for number in range(30))
    result = run(config(cases=many), "--oracle")
    lines = result.stdout.splitlines()
    [at] = [number for number, line in enumerate(lines) if line.startswith("  MISSING  30 cases: no solution/")]
    assert lines[at + 1].strip().startswith("c0, c1, ")
    assert lines[at + 1].endswith("c19 and 10 more")
    assert "--json lists them all" in lines[at + 2]


def test_prose_is_broken_between_words_on_a_terminal_only(monkeypatch):
    text = cli.needed_note(candidates=1, cases=8)
    assert cli.paragraph(text) == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    broken = cli.paragraph(text)
    assert max(len(line) for line in broken.splitlines()) < 60
    assert " ".join(broken.split()) == text
