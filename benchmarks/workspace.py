"""What a trivial trial with a workspace costs: one file in, one command, one file out, by kind of sandbox.

python benchmarks/workspace.py [TRIALS]                          # mst: none, bwrap
python benchmarks/workspace.py --inspect PYTHON [TRIALS]         # the same work in Inspect's local sandbox
python benchmarks/workspace.py --harbor PYTHON [TRIALS]          # and in Harbor, whose container is a folder here

PYTHON is the one that has the other harness. Prints wall and processor time a trial, children included; the harness's
own start and imports are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INSPECT = """
import resource, sys, time
from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

@solver
def run():
    async def solve(state, generate):
        done = await sandbox().exec(["sh", "-c", "cat in.txt > out.txt; echo done"])
        state.output.completion = done.stdout
        return state
    return solve

n = int(sys.argv[1])
samples = [Sample(input="x", target="done", files={"in.txt": "hello"}) for _ in range(n)]
task = Task(dataset=samples, solver=run(), scorer=includes(), sandbox="local")
evaluate(task, model="mockllm/model", display="none", log_dir=sys.argv[2], limit=1)
def cpu():
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)
began, used = time.perf_counter(), cpu()
evaluate(task, model="mockllm/model", display="none", log_dir=sys.argv[2], max_samples=4, max_sandboxes=4)
wall_ms, cpu_ms = (time.perf_counter() - began) / n * 1000, (cpu() - used) / n * 1000
print(f"inspect local: {wall_ms:.2f} ms wall, {cpu_ms:.2f} ms cpu a trial")
"""


LIMIT_MS = 6.5
"""CPU of a trial without a sandbox: a third of the better peer's."""


def processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


async def collect_all(kind: str, trials: int, root: Path) -> None:
    from mst.collect.context import RunContext
    from mst.collect.loop import collect
    from mst.config.files import IndexedFiles
    from mst.model.case import Case, EvalPlan, Variant
    from mst.model.keys import TrialKey

    (root / "source").mkdir()
    (root / "source" / "in.txt").write_text("hello")
    files = IndexedFiles()
    case = Case(id="c", dataset="d", input="x", fixture=[files.add(root / "source", "in.txt")])
    options = {"argv": ["sh", "-c", "cat in.txt > out.txt; echo done"]}
    variant = Variant(name="v", client="command", client_options=options, sandbox={"kind": kind})
    plan = EvalPlan(name="e", config_id="0", content_hash="0", variants=[variant], baseline="v", concurrency=4)
    (root / "scratch").mkdir()
    seen = []
    await collect(
        plan,
        {"c": case},
        [TrialKey(variant="v", case_id="c", trial=number) for number in range(trials)],
        RunContext.of(plan, run_id="20260101T000000Z-abcdef", files=files, secrets={}, scratch_root=root / "scratch"),
        sink=lambda collected: seen.append(collected.record.transcript.final_text),
        cancel=asyncio.Event(),
    )
    assert seen == ["done"] * trials


def harbor(python: str, trials: int) -> int:
    """Harbor is a program: what one trial costs, start-up included, is taken off what many cost."""
    spent = []
    for count in (1, trials + 1):
        with tempfile.TemporaryDirectory() as home:
            began, used = time.perf_counter(), processor_s()
            command = [python, str(Path(__file__).parent / "peers" / "harbor_folder.py"), str(count), home]
            ended = subprocess.run(command, check=False).returncode
            if ended != 0 or len(list(Path(home).glob("jobs/*/*/result.json"))) != count:
                print(f"harbor did not run {count} trials")
                return 1
            spent.append((time.perf_counter() - began, processor_s() - used))
    (few_wall, few_cpu), (wall, cpu) = spent
    wall_ms, cpu_ms = (wall - few_wall) / trials * 1000, (cpu - few_cpu) / trials * 1000
    print(f"harbor in a folder: {wall_ms:.2f} ms wall, {cpu_ms:.2f} ms cpu a trial")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("trials", nargs="?", type=int, default=200)
    parser.add_argument("--inspect", help="the Python that has Inspect")
    parser.add_argument("--harbor", help="the Python that has Harbor")
    given = parser.parse_args()
    if given.inspect:
        with tempfile.TemporaryDirectory() as logs:
            return subprocess.run([given.inspect, "-c", INSPECT, str(given.trials), logs], check=False).returncode
    if given.harbor:
        return harbor(given.harbor, given.trials)
    kept = True
    for kind in ("none", "bwrap"):
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            asyncio.run(collect_all(kind, 1, Path(first)))
            began, used = time.perf_counter(), processor_s()
            asyncio.run(collect_all(kind, given.trials, Path(second)))
            wall_ms = (time.perf_counter() - began) / given.trials * 1000
            cpu_ms = (processor_s() - used) / given.trials * 1000
            limit = f", limit {LIMIT_MS}" if kind == "none" else ""
            print(f"mst {kind}: {wall_ms:.2f} ms wall, {cpu_ms:.2f} ms cpu a trial{limit}")
            kept = kept and (kind != "none" or cpu_ms <= LIMIT_MS)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
