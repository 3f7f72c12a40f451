"""Start-up stays quick: nothing heavy is imported before a command needs it."""

import os
import resource
import subprocess
import sys

import pytest

HEAVY = {
    "pydantic", "yaml", "jinja2", "rich", "jsonschema", "numpy", "celery", "kombu", "redis", "obstore", "mcp",
    "cryptography", "pyrage", "asyncio",
}  # fmt: skip
HELP_CPU_S = 0.2


def imported(*arguments):
    """Top-level packages that a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mst", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def cpu_s(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "mst", *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    found = imported(*arguments)
    assert "click" in found
    assert not found & HEAVY


@pytest.mark.parametrize(
    "name",
    [
        "demo",
        "init",
        "validate",
        "run",
        "grade",
        "attach",
        "show",
        "ls",
        "open",
        "compare",
        "diagnose",
        "export",
        "worker",
        "flower",
    ],
)
def test_the_help_of_a_command_needs_no_models(name):
    assert not imported(name, "--help") & (HEAVY - {"asyncio"})


def test_help_takes_at_most_a_fifth_of_a_second_of_cpu():
    limit = HELP_CPU_S * (2 if os.environ.get("PYTEST_XDIST_WORKER") else 1)  # the cores are shared with other tests
    assert min(cpu_s("--help") for _ in range(5)) <= limit
