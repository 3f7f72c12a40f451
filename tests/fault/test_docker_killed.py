"""mst killed in the middle of trials in Docker: the next start leaves nothing of it behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from mst.sandboxes import containers
from mst.testing.commandline import run_mst, start_mst, until
from mst.testing.engine import IMAGE

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

AT_ONCE = 10


@pytest.fixture
def project(docker_host, tmp_path):
    """An eval whose trials never end, with all that a trial can have: a proxy, a server beside, a door."""
    (tmp_path / "tmp").mkdir()
    cases = [{"id": f"c{number}", "input": "x"} for number in range(AT_ONCE)]
    (tmp_path / "cases.yaml").write_text(json.dumps(cases))
    long = {
        "name": "killed",
        "datasets": [{"file": "cases.yaml"}],
        "client": "command",
        "client_options": {"argv": ["sh", "-c", "setsid sleep 1000 & exec sleep 1000"], "input": "none"},
        "assertions": [{"contains_text": "x"}],
        "variants": [
            {"name": "alone", "sandbox": {"kind": "docker", "image": IMAGE}},
            {
                "name": "allowed",
                "sandbox": {
                    "kind": "docker", "image": IMAGE, "network": "allowlist", "allow": ["a.test"], "proxy": IMAGE,
                },
            },
        ],
        "vary": ["sandbox"],
        "concurrency": AT_ONCE,
        "trial_limits": {"time_s": 900},
    }  # fmt: skip
    short = {**long, "name": "next", "client_options": {"argv": ["true"]}, "max_cases": 1}
    (tmp_path / "long.yaml").write_text(json.dumps(long))
    (tmp_path / "short.yaml").write_text(json.dumps(short))
    return tmp_path


def of(pid):
    """Containers whose owner is a process."""
    found = containers.engine().containers.list(all=True, filters={"label": containers.LABEL}, ignore_removed=True)
    return [container for container in found if container.labels[containers.LABEL].startswith(f"{pid}-")]


def programs(pid):
    """Processes here that attend to containers of a process."""
    named = f"mst-{pid}-".encode()
    return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and named in _line(entry)]


def _line(entry):
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def networks():
    return {network.name for network in containers.engine().networks.list() if network.name.startswith("mst-")}


def killed(project):
    """Start the eval, wait until all trials run, kill mst; returns its process ID."""
    environment = {"TMPDIR": str(project / "tmp")}
    process = start_mst("run", "long.yaml", cwd=project, env=environment)
    try:
        until(lambda: process.poll() is not None or len(running(process.pid)) >= AT_ONCE, "all run", within_s=240)
        assert process.poll() is None, process.communicate()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return process.pid


def running(pid):
    """Containers of trials that run."""
    return [one for one in of(pid) if one.status == "running" and "sleep" in " ".join(one.attrs["Args"])]


def leaves_nothing(project, pid, before):
    said = run_mst("run", "short.yaml", cwd=project, env={"TMPDIR": str(project / "tmp")})
    assert said.code in {0, 1}, said.err
    assert of(pid) == []
    until(lambda: programs(pid) == [], "what attended to the containers has ended")
    assert networks() == before
    assert list((project / "tmp").iterdir()) == []


def test_nothing_is_left_after_the_next_start(project):
    before = networks()
    pid = killed(project)
    assert of(pid)
    assert list((project / "tmp").iterdir())
    leaves_nothing(project, pid, before)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_nothing_is_left_of_two_hundred_killed_trials(project):
    before = networks()
    for _ in range(200 // AT_ONCE):
        leaves_nothing(project, killed(project), before)
    assert os.getpid() not in {int(one.labels[containers.LABEL].split("-")[0]) for one in of("")}
