"""The command client on real programs: exit codes, steps, files, limits, transcripts."""

from __future__ import annotations

import asyncio
import json

import pytest

from mst.clients.command import Command
from mst.config.files import IndexedFiles
from mst.errors import ClientError
from mst.model.case import Case, TrialLimits, Variant
from mst.testing.client import one_run

CASE = Case(id="c", dataset="d", input={"file": "mod.py", "n": 2})


def run(folder, case=CASE, source=None, limits=None, secrets=None, **options):
    variant = Variant(name="v", client="command", client_options=options, trial_limits=limits or TrialLimits())
    return asyncio.run(one_run(Command(variant), case, variant, folder, files=source, secrets=secrets))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def listed(config, **contents):
    source = IndexedFiles()
    refs = []
    for name, text in contents.items():
        path = name.replace("__", "/") + ".py"
        (config / path).parent.mkdir(parents=True, exist_ok=True)
        (config / path).write_text(text)
        refs.append(source.add(config, path).to_dict())
    return source, refs


def test_another_exit_code_is_the_agents_failure(tmp_path):
    result = run(tmp_path, argv=["sh", "-c", "echo out; echo why >&2; exit 3"])
    assert (result.error_kind, result.exit_code) == ("agent", 3)
    assert "exit code 3" in result.error
    assert result.transcript.final_text == "out"
    assert result.diagnostics["stderr"] == "why\n"


@pytest.mark.parametrize("ok", [[0, 3], "any"])
def test_exit_codes_may_be_declared_sound(tmp_path, ok):
    result = run(tmp_path, argv=["sh", "-c", "exit 3"], ok_exit_codes=ok)
    assert (result.error, result.error_kind, result.exit_code) == (None, None, 3)


def test_a_signal_is_named(tmp_path):
    assert "signal 9" in run(tmp_path, argv=["sh", "-c", "kill -9 $$"]).error


def test_a_step_that_fails_is_the_last(tmp_path):
    result = run(tmp_path, steps=[["touch", "a"], ["false"], ["touch", "b"]])
    assert result.error_kind == "agent"
    assert names(tmp_path / "workspace") == ["a"]
    assert [step["exitCode"] for step in result.diagnostics["steps"]] == [0, 1]


def test_arguments_never_meet_a_shell(tmp_path):
    case = Case(id="c", dataset="d", input={"file": "$(touch pwned); `x` *"})
    result = run(tmp_path, case=case, argv=["echo", "{{input.file}}"], input="none")
    assert result.transcript.final_text == "$(touch pwned); `x` *"
    assert names(tmp_path / "workspace") == []


def test_listed_files_are_placed_apart_and_named_by_arguments(tmp_path):
    source, refs = listed(
        tmp_path / "config", tool="import sys; from lib import part; print(part.x, sys.argv[1])", lib__part="x = 41"
    )
    argv = ["{{python}}", "./tool.py", "{{input.n}}"]
    result = run(tmp_path / "t", source=source, argv=argv, files=refs)
    assert result.transcript.final_text == "41 2"
    assert names(tmp_path / "t" / "workspace") == []


def test_a_listed_file_that_changed_is_the_environments_fault(tmp_path):
    source, refs = listed(tmp_path / "config", tool="print(1)")
    (tmp_path / "config/tool.py").write_text("print(2)")
    with pytest.raises(ClientError, match=r"tool\.py") as caught:
        run(tmp_path / "t", source=source, argv=["{{python}}", "tool.py"], files=refs)
    assert caught.value.kind == "environment"


def test_the_time_limit_is_over_all_steps(tmp_path):
    limits = TrialLimits(time_s=0.8)
    result = run(tmp_path, limits=limits, steps=[["sleep", "0.5"], ["sleep", "5"]])
    assert result.limit_hit == "timeout"
    assert result.agent_duration_ms < 4000


def test_at_the_output_limit_it_is_ended_and_what_it_said_is_kept(tmp_path):
    result = run(tmp_path, limits=TrialLimits(output_bytes=1000), argv=["yes"])
    assert result.limit_hit == "output"
    assert result.error_kind is None
    assert len(result.transcript.final_text) <= 1000


def test_what_it_left_running_is_told(tmp_path):
    result = run(tmp_path, argv=["sh", "-c", "sleep 60 &"])
    # The name is the shell's until the child has become the other program.
    assert result.diagnostics["leftProcesses"] in (["sleep"], ["sh"])


def test_a_working_folder_may_be_chosen_inside_only(tmp_path):
    assert run(tmp_path / "a", argv=["pwd"], cwd=".").transcript.final_text == str((tmp_path / "a/workspace").resolve())
    with pytest.raises(ClientError, match="leaves the workspace"):
        run(tmp_path / "b", argv=["pwd"], cwd="../scratch")


def test_the_environment_holds_what_was_declared_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAK", "1")
    result = run(
        tmp_path, argv=["env"], env={"A": "{{workspace}}", "T": {"secret": "TOKEN"}}, secrets={"TOKEN": "t", "X": "no"}
    )
    found = dict(line.split("=", 1) for line in result.transcript.final_text.splitlines())
    assert found["A"] == str(tmp_path / "workspace")
    assert found["T"] == "t"
    assert set(found) == {"A", "T", "PATH", "HOME", "TMPDIR", "LANG", "PYTHONDONTWRITEBYTECODE", "MST_PROCESS"}
    assert found["HOME"].startswith(str(tmp_path / "scratch"))


def test_a_transcript_in_a_file_is_read_by_its_parser(tmp_path):
    event = json.dumps({"kind": "tool_call", "name": "t"})
    script = f"mkdir out; echo '{event}' > out/log; echo nonsense >> out/log"
    result = run(tmp_path, argv=["sh", "-c", script], transcript={"file": "out/log", "parser": "jsonl"})
    assert [event.name for event in result.transcript.events] == ["t"]
    assert result.transcript.evidence == "observed"
    assert result.diagnostics["transcriptLinesUnused"] == 1


@pytest.mark.parametrize(
    "script", ["true", "ln -s /etc/passwd log", "mkfifo log", "mkdir log", "head -c 2000 /dev/zero > log"]
)
def test_a_transcript_file_that_is_no_bounded_plain_file_is_told(tmp_path, script):
    limits = TrialLimits(output_bytes=1000)
    result = run(tmp_path, limits=limits, argv=["sh", "-c", script], transcript={"file": "log", "parser": "text"})
    assert result.transcript.final_text is None
    assert "transcriptFile" in result.diagnostics


def test_preflight_names_missing_programs_once(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("")
    steps = [["no-such-tool"], ["no-such-tool", "x"], ["/no/such"], [str(tool)], ["sh"], ["{{python}}"], ["./built"]]
    variant = Variant(name="v", client="command", client_options={"steps": steps})
    assert Command(variant).preflight() == [
        "no-such-tool: no such program on PATH; install it or give its path",
        "/no/such: no such program",
        f"{tool}: not executable; set its executable bit",
    ]


def test_preflight_refuses_a_sandbox_that_it_can_not_give():
    folder = "/no/such/folder"
    sandbox = {"kind": "bwrap", "read": [folder]}
    variant = Variant(name="v", client="command", client_options={"argv": ["sh"]}, sandbox=sandbox)
    assert any(folder in fault for fault in Command(variant).preflight())


def test_a_program_that_is_gone_by_now_is_the_environments_fault(tmp_path):
    with pytest.raises(ClientError, match="no such program") as caught:
        run(tmp_path, argv=["./nothing-here"])
    assert caught.value.kind == "environment"


@pytest.mark.parametrize(
    ("limits", "hit"),
    [
        ({"tokens": 29}, "tokens"),
        ({"tokens": 30}, None),
        ({"cost_usd": 0.4}, "cost"),
        ({"cost_usd": 0.5}, None),
        ({"turns": 2}, "turns"),
        ({"turns": 3}, None),
    ],
)
def test_what_it_says_that_it_used_is_held_against_its_limits(tmp_path, limits, hit):
    used = {"usage": {"inputTokens": 10, "outputTokens": 20, "totalCostUsd": 0.5, "turns": 3}, "finalText": "x"}
    argv = ["echo", json.dumps(used)]
    result = run(tmp_path, argv=argv, transcript="jsonl", limits=TrialLimits(**limits))
    assert (result.limit_hit, result.error_kind) == (hit, None)
    assert result.transcript.final_text == "x"


def test_a_program_that_does_not_say_what_it_used_is_over_no_limit(tmp_path):
    result = run(tmp_path, argv=["echo", "x"], limits=TrialLimits(tokens=1, cost_usd=0.001, turns=1))
    assert result.limit_hit is None
