"""Programs that misbehave in every way that we could think of: the trial ends, is told, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import sys
import time

import psutil
import pytest

from mst.collect.context import RunContext
from mst.collect.loop import client_of
from mst.collect.trial import collect_trial
from mst.config.files import IndexedFiles
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.process.redact import Redactor
from mst.process.scratch import scratch_folder
from mst.testing.client import FAMILY, descendants, wait_for_no_more_than

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are a POSIX matter")


class Scene:
    def __init__(self, root):
        self.root = root

    async def collect(self, code, *, limits=None, case=None):
        variant = Variant(
            name="v",
            client="command",
            client_options={"argv": ["{{python}}", "-c", code], "input": "none"},
            env={"MST_TEST_FAMILY": FAMILY},
            trial_limits=limits or TrialLimits(time_s=20),
        )
        return await collect_trial(
            case or Case(id="c", dataset="d"),
            variant,
            0,
            client=client_of(variant),
            context=RunContext(
                run_id="20260101T000000Z-abcdef",
                files=IndexedFiles(),
                secrets={},
                redactor=Redactor(()),
                scratch_root=self.root,
                timeouts=StageTimeouts(),
            ),
        )


@pytest.fixture
def scene(tmp_path):
    before = descendants()
    yield Scene(tmp_path)
    wait_for_no_more_than(before)


def test_a_program_that_ignores_term_is_killed_and_scored(scene):
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); open('left','w').write('x'); time.sleep(300)"
    started = time.monotonic()
    record = asyncio.run(scene.collect(code, limits=TrialLimits(time_s=1))).record
    assert (record.status, record.limit_hit, record.exit_code) == ("completed", "timeout", -9)
    assert [file.path for file in record.artifact_files] == ["left"]
    assert time.monotonic() - started < 30


def test_a_tree_of_children_goes_with_it(scene):
    code = (
        "import os,time\n"
        "for _ in range(3): os.fork()\n"  # eight processes
        "time.sleep(300)"
    )
    record = asyncio.run(scene.collect(code, limits=TrialLimits(time_s=1))).record
    assert record.limit_hit == "timeout"


def test_children_that_keep_forking_are_outrun(scene):
    code = (
        "import os,time\n"
        "def hop(n):\n"
        "    while True:\n"
        "        if os.fork(): os._exit(0)\n"
        "        time.sleep(0.005)\n"
        "if os.fork(): time.sleep(0.3); os._exit(0)\n"
        "hop(0)"
    )
    record = asyncio.run(scene.collect(code)).record
    assert record.status == "completed"


def test_a_daemon_in_its_own_session_is_found_killed_and_told(scene):
    code = (
        "import os,sys,time\n"
        "if os.fork(): os.wait(); print('done'); sys.exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "[os.close(n) for n in range(3)]\n"
        "time.sleep(300)"
    )
    record = asyncio.run(scene.collect(code)).record
    assert record.status == "completed"
    assert record.transcript.final_text == "done"
    assert len(record.client_diagnostics["leftProcesses"]) == 1


def test_a_flood_of_output_is_bounded_in_memory(scene):
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    before = psutil.Process().memory_info().rss
    record = asyncio.run(scene.collect(code, limits=TrialLimits(time_s=20, output_bytes=100_000))).record
    assert (record.status, record.limit_hit) == ("completed", "output")
    assert len(record.transcript.final_text) <= 100_000
    assert psutil.Process().memory_info().rss - before < 100 * 1024 * 1024


def test_a_full_workspace_is_bounded_and_told(scene):
    code = (
        "for n in range(400): open(f'f{n}', 'w').write('x' * 100)\n"
        "open('huge', 'wb').truncate(1 << 40)\n"
        "import os; os.symlink('/etc', 'etc'); os.mkfifo('pipe')"
    )
    collected = asyncio.run(scene.collect(code, limits=TrialLimits(time_s=20, artifact_files=50, artifact_bytes=3000)))
    record = collected.record
    assert record.status == "completed"
    assert len(record.artifact_files) == 30
    assert sum(file.size for file in record.artifact_files) == 3000
    notes = record.client_diagnostics["export"]
    assert notes["omittedCount"] == 373
    assert len(notes["omitted"]) == 20
    assert sum(path.stat().st_size for path in collected.artifacts.rglob("*")) == 3000


def test_a_workspace_that_was_deleted_is_a_diff_of_deletions(scene, tmp_path):
    files = IndexedFiles()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a").write_text("1\n")
    case = Case(id="c", dataset="d", fixture=[files.add(tmp_path / "src", "a")])

    async def go():
        variant = Variant(
            name="v", client="command", client_options={"argv": ["sh", "-c", "rm -rf ../workspace/*"], "input": "none"}
        )
        return await collect_trial(
            case,
            variant,
            0,
            client=client_of(variant),
            context=RunContext(
                run_id="20260101T000000Z-abcdef",
                files=files,
                secrets={},
                redactor=Redactor(()),
                scratch_root=tmp_path,
                timeouts=StageTimeouts(),
            ),
        )

    record = asyncio.run(go()).record
    assert "deleted file mode 100644" in record.diff
    assert record.artifact_files == []


def test_a_workspace_whose_folder_itself_is_gone_counts_as_an_empty_one_and_that_is_told(scene):
    record = asyncio.run(scene.collect("import os; os.rmdir(os.getcwd())")).record
    assert (record.status, record.error_kind, record.artifact_files) == ("completed", None, [])
    assert "the program removed it" in record.client_diagnostics["export"]["workspace"]


def test_deep_folders_and_folders_without_rights_are_cleaned_up(scene, tmp_path):
    code = "import os\nfor n in range(300): os.mkdir('d'); os.chdir('d')\nopen('x', 'w').close(); os.chmod('.', 0)"
    collected = asyncio.run(scene.collect(code))
    assert collected.record.status == "completed"
    assert "cleanup" not in (collected.record.client_diagnostics or {})
    collected.discard()
    assert list(tmp_path.iterdir()) == []


def test_cancellation_in_the_middle_kills_all_and_deletes_all(scene, tmp_path):
    code = (
        "import signal,subprocess,time\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "subprocess.Popen(['sleep','300']); subprocess.Popen(['sleep','300'], start_new_session=True)\n"
        "time.sleep(300)"
    )

    async def go():
        before = descendants()
        task = asyncio.ensure_future(scene.collect(code))
        deadline = time.monotonic() + 20
        while len(descendants() - before) < 3 and time.monotonic() < deadline:  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert list(tmp_path.iterdir()) == []


def test_cancelling_twice_still_kills_all(scene, tmp_path):
    code = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"

    async def go():
        before = descendants()
        task = asyncio.ensure_future(scene.collect(code))
        while not descendants() - before:  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert list(tmp_path.iterdir()) == []


def test_cancelling_while_a_set_up_command_hangs_kills_it(scene, tmp_path):
    case = Case(id="c", dataset="d", setup=[["sleep", "300"]])

    async def go():
        before = descendants()
        task = asyncio.ensure_future(scene.collect("pass", case=case))
        while not descendants() - before:  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("depth", [150, 1500])
def test_folders_deeper_than_anything_can_walk_cost_no_result(scene, tmp_path, depth):
    down = f"for _ in range({depth}): os.mkdir('d'); os.chdir('d')"
    code = f"import os\nopen('top','w')\n{down}\nopen('x','w'); print('done')"
    with scratch_folder("collect") as scratch:
        record = asyncio.run(Scene(scratch).collect(code)).record
    assert (record.status, record.transcript.final_text.strip()) == ("completed", "done")
    assert [file.path for file in record.artifact_files] == ["top"]
    assert "folders deep" in str(record.client_diagnostics)
    assert not scratch.exists()
