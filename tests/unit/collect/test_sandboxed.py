"""A whole trial in bubblewrap: set-up, program, server, export, teardown; what is told of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

import pytest

from mst.collect.context import RunContext
from mst.collect.loop import client_of
from mst.collect.trial import collect_trial
from mst.config.files import IndexedFiles
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.process.redact import Redactor
from mst.testing.client import descendants, wait_for_no_more_than

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None and not os.environ.get("CI"), reason="bubblewrap is not installed"
)
BWRAP = {"kind": "bwrap", "memory": "256m", "pids": 64, "disk": "32m"}


def collect(root, variant, case, files=None):
    before = descendants()
    collected = asyncio.run(
        collect_trial(
            case,
            variant,
            0,
            client=client_of(variant),
            context=RunContext(
                run_id="20260101T000000Z-abcdef",
                files=files or IndexedFiles(),
                secrets={"TOKEN": "s3cr3t-token-value"},
                redactor=Redactor({"TOKEN": "s3cr3t-token-value"}.values()),
                scratch_root=root,
                timeouts=StageTimeouts(),
            ),
        )
    )
    wait_for_no_more_than(before)
    return collected


def command(*argv, **changes):
    options = {"argv": list(argv), **changes.pop("options", {})}
    return Variant(name="v", client="command", client_options=options, sandbox=BWRAP, **changes)


def test_all_stages_run_inside_and_the_export_is_what_was_left(tmp_path):
    case = Case(
        id="c",
        dataset="d",
        input="hello",
        setup=[["sh", "-c", "pwd > where; echo 1 > ~/from-setup"]],
        teardown=[["sh", "-c", "test -d /workspace"]],
    )
    variant = command("sh", "-c", "cat ~/from-setup; cat > answer; echo {{workspace}}")
    collected = collect(tmp_path, variant, case)
    record = collected.record
    assert (record.status, record.transcript.final_text) == ("completed", "1\n/workspace")
    assert {file.path for file in record.artifact_files} == {"where", "answer"}
    assert (collected.artifacts / "where").read_text() == "/workspace\n"
    assert record.client_diagnostics["sandbox"]["network"] == "none"
    assert "cleanup" not in record.client_diagnostics
    collected.discard()
    assert list(tmp_path.iterdir()) == []


def test_listed_files_and_python_work_inside(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/tool.py").write_text("import sys, os; print(sys.argv[1], os.getcwd())")
    files = IndexedFiles()
    listed = [files.add(tmp_path / "config", "tool.py").to_dict()]
    (tmp_path / "root").mkdir()
    variant = command("{{python}}", "tool.py", "{{input}}", options={"files": listed, "input": "none"})
    record = collect(tmp_path / "root", variant, Case(id="c", dataset="d", input="x"), files).record
    assert record.transcript.final_text == "x /workspace"


def test_a_python_function_works_inside(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/agent.py").write_text(
        "import os\ndef answer(i, c): return f'{i} {c[\"workspace\"]} {os.getuid()}'"
    )
    files = IndexedFiles()
    listed = [files.add(tmp_path / "config", "agent.py").to_dict()]
    (tmp_path / "root").mkdir()
    variant = Variant(
        name="v",
        client="python",
        client_options={"function": "./agent.py:answer", "files": listed},
        sandbox=BWRAP,
    )
    case = Case(id="c", dataset="d", input="x", fixture=[])
    record = collect(tmp_path / "root", variant, case, files).record
    assert record.transcript.final_text == "x /workspace 1000", record


SERVER = """
from mcp.server.mcpserver import MCPServer
import os
server = MCPServer("s")
@server.tool()
def where() -> str:
    return os.getcwd() + " " + str(os.getuid())
server.run("stdio")
"""


@pytest.mark.parametrize("lifetime", ["trial", "shard"])
def test_an_mcp_server_runs_inside(tmp_path, lifetime):
    pytest.importorskip("mcp")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/server.py").write_text(SERVER)
    files = IndexedFiles()
    listed = [files.add(tmp_path / "config", "server.py").to_dict()]
    (tmp_path / "root").mkdir()
    variant = Variant(
        name="v",
        client="mcp",
        servers={"s": {"command": sys.executable, "args": ["server.py"]}},
        client_options={"files": listed, "server_lifetime": lifetime},
        sandbox={"kind": "bwrap"},
    )
    case = Case(id="c", dataset="d", input={"tool": "where", "arguments": {}})

    async def go():
        client = client_of(variant)
        try:
            return await collect_trial(
                case,
                variant,
                0,
                client=client,
                context=RunContext(
                    run_id="20260101T000000Z-abcdef",
                    files=files,
                    secrets={},
                    redactor=Redactor(()),
                    scratch_root=tmp_path / "root",
                    timeouts=StageTimeouts(),
                ),
            )
        finally:
            await client.close()

    record = asyncio.run(go()).record
    inside = "/workspace" if lifetime == "trial" else "/scratch"
    assert record.transcript.final_text == f"{inside} 1000", record


def test_a_secret_reaches_the_program_and_no_argument(tmp_path):
    variant = command(
        "sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '; echo; echo $TOKEN | wc -c", env={"TOKEN": {"secret": "TOKEN"}}
    )
    record = collect(tmp_path, variant, Case(id="c", dataset="d")).record
    assert record.transcript.final_text.endswith(f"{len('s3cr3t-token-value') + 1}")
    assert "redacted" not in record.transcript.final_text
    assert str(tmp_path) not in record.transcript.final_text, "nor the trial's place on this machine"


def test_a_disk_hog_is_graded_as_it_stands(tmp_path):
    variant = command("sh", "-c", "echo kept > a; while :; do head -c 9000000 /dev/zero >> big; sleep 0.05; done")
    record = collect(tmp_path, variant, Case(id="c", dataset="d")).record
    assert (record.status, record.limit_hit, record.error_kind) == ("completed", "disk", None)
    assert record.client_diagnostics["sandbox"]["reached"] == {"disk": 1}
    assert "a" in {file.path for file in record.artifact_files}


def test_a_memory_hog_is_graded_as_it_stands(tmp_path):
    code = "keep = []\nwhile True: keep.append(bytearray(b'x') * (8 << 20))"
    record = collect(tmp_path, command("python3", "-c", code), Case(id="c", dataset="d")).record
    assert (record.status, record.limit_hit) == ("completed", "memory")


def test_a_set_up_command_that_passes_a_limit_is_the_environments_fault(tmp_path):
    case = Case(
        id="c", dataset="d", setup=[["sh", "-c", "while :; do head -c 9000000 /dev/zero >> big; sleep 0.05; done"]]
    )
    record = collect(tmp_path, command("true"), case).record
    assert (record.status, record.error_kind) == ("error", "environment")
    assert "limit of disk" in record.error


def test_at_the_time_limit_what_it_left_is_there(tmp_path):
    variant = command("sh", "-c", "echo 1 > a; sleep 300", trial_limits=TrialLimits(time_s=1))
    record = collect(tmp_path, variant, Case(id="c", dataset="d")).record
    assert (record.limit_hit, [file.path for file in record.artifact_files]) == ("timeout", ["a"])


def test_a_program_that_is_not_visible_inside_is_found_before_any_trial(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho hi\n")
    tool.chmod(0o755)
    faults = client_of(command(str(tool))).preflight()
    assert len(faults) == 1
    assert "sandbox.read" in faults[0]
    seen = {**BWRAP, "read": [str(tmp_path)]}
    variant = command(str(tool)).model_copy(update={"sandbox": seen})
    assert client_of(variant).preflight() == []
    (tmp_path / "root").mkdir()
    assert collect(tmp_path / "root", variant, Case(id="c", dataset="d")).record.transcript.final_text == "hi"
