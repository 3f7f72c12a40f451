"""`honcho start` with this repository's Procfile: broker, two workers, Flower, scaling signal; in a real browser."""

import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest

from mst.errors import BrokerError
from mst.fleet.presence import Presence
from mst.runs.locate import regrades_of
from mst.testing.commandline import environment, run_mst, until
from mst.testing.equality import differences
from mst.testing.fleet import GRADE_QUEUE, Bed, Fleet
from mst.testing.quiz_eval import SECRET, digest
from mst.testing.servers import ValkeyServer, free_ports

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]

PROCFILE = Path(__file__).parents[2] / "Procfile"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
VALUE = "sk" + "-procfile-canary-5d1f"  # no key stands in the tree


def unavailable(reason):
    if os.environ.get("CI"):
        pytest.fail(f"{reason}: CI must run this")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    home = tmp_path_factory.mktemp("fleet")
    [port] = free_ports(1)
    url = f"redis://:{secrets.token_hex(16)}@127.0.0.1:{port}/0"
    # the Procfile starts it
    broker = ValkeyServer(url=url, program="", config=home, log=home)
    running = Fleet(home, broker, f"file:{home / 'store'}", {})
    yield Bed(running, tmp_path_factory.mktemp("quiz"), secret=True)
    running.stop()


@pytest.fixture(scope="module")
def started(bed, tmp_path_factory):
    """Port of Flower, and honcho's process."""
    for needed in ("honcho", "flower"):
        if importlib.util.find_spec(needed) is None:
            unavailable(f"{needed} is not installed")
    folder = tmp_path_factory.mktemp("honcho")
    command = folder / "bin" / "mst"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m mst "$@"\n')
    command.chmod(0o755)
    port, scale_port = free_ports(2)
    env = environment(
        PATH=f"{command.parent}:{os.environ['PATH']}",
        MST_BROKER_URL=bed.fleet.broker.url,
        MST_STORE=bed.fleet.store_uri,
        MST_FLEET_KEY_FILE=str(bed.fleet.keys.fleet_key),
        MST_TRUSTED_SIGNERS_FILE=str(bed.fleet.keys.signers),
        MST_FLOWER_PORT=str(port),
        MST_SCALE_PORT=str(scale_port),
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "honcho", "start", "-f", PROCFILE, "-c", "worker=2"],
            cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        until(lambda: alive(process, folder) and len(workers(bed)) == 2, "two workers serve the queue")
        until(lambda: alive(process, folder) and answers(port), "Flower answers")
        until(lambda: bed.fleet.client.pubsub_numpat() > 0, "Flower hears events")
        until(lambda: b"mst_fleet_workers" in metrics(scale_port), "the scaling signal is published")
        yield port, process, folder / "log"
    finally:
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        finally:
            for one in [*psutil.wait_procs(family, timeout=10)[1], process]:
                one.kill()
            process.wait()


def alive(process, folder):
    assert process.poll() is None, (folder / "log").read_text()
    return True


def workers(bed):
    try:
        return Presence(bed.fleet.client).workers(GRADE_QUEUE)
    except BrokerError:
        return []


def answers(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthcheck", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def metrics(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return answer.read()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def graded(bed, started, tmp_path_factory):
    keys = tmp_path_factory.mktemp("secrets") / "judge-keys.json"
    keys.write_text(json.dumps({SECRET: VALUE}))
    keys.chmod(0o600)
    said = bed.grade("--secrets-file", keys, shards=2)
    assert said.code in (0, 1), said.err
    assert set(bed.quiz.lines("digests")) == {digest(VALUE)}
    return bed.newest()


@pytest.fixture(scope="module")
def page(graded):  # made after the run: the browser's event loop would be in the way
    program = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if program is None:
        unavailable("no Chromium on PATH")
    if importlib.util.find_spec("playwright") is None:
        unavailable("playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser.new_page()
        browser.close()


def test_a_browser_shows_run_shard_and_attempt_of_a_graded_run_and_no_secret(bed, started, graded, page):
    port, _, log = started
    asked = []
    page.on("request", lambda request: asked.append((request.method, request.url, request.post_data)))
    page.goto(f"http://127.0.0.1:{port}/tasks")
    table = page.locator("#tasks-table tbody")
    for shard in (0, 1):
        shown = f"<{graded.run_id} d1 shard {shard} attempt 1>"
        row = table.locator("tr", has_text=shown)
        row.wait_for(timeout=20_000)
        text = row.inner_text()
        assert "grade:quiz" in text
        assert "SUCCESS" in text
        assert f"{graded.run_id}.d1.grade.{shard}.a1" in text
    texts = [page.content()]
    page.get_by_role("link", name=f"{graded.run_id}.d1.grade.0.a1").click()
    page.wait_for_load_state("networkidle")
    assert f"{graded.run_id} d1 shard 0 attempt 1" in page.content()
    texts.append(page.content())
    for path in ("/workers", "/broker", "/api/tasks", "/api/workers", "/metrics"):
        page.goto(f"http://127.0.0.1:{port}{path}")
        texts.append(page.content())
    again = {one for one in asked if "/static/" not in one[1]}
    assert len(again) > 7, "the pages ask for their tables"
    texts += [page.request.fetch(url, method=method, data=data).text() for method, url, data in again]
    assert sum(map(len, texts)) > 10_000
    password = bed.fleet.broker.url.split(":")[2].split("@")[0]
    own = [path.read_text().strip() for path in (bed.fleet.keys.fleet_key, bed.fleet.keys.signing_key)]
    hidden = [VALUE, password, *(line for text in own for line in text.splitlines() if len(line) > 20)]
    for secret in hidden:
        assert not [text[:80] for text in texts if secret in text]
        assert secret not in log.read_text(errors="replace")


def test_both_workers_are_there_under_names_of_their_own(bed, started):
    _, process, _ = started
    commands = [" ".join(one.cmdline()) for one in psutil.Process(process.pid).children(recursive=True)]
    assert len(set(workers(bed))) == 2
    assert sum("mst worker" in one for one in commands) >= 2
    assert any("mst flower" in one for one in commands)


def test_the_run_is_the_one_that_one_process_gives(bed, graded):
    said = run_mst("grade", bed.source.path, cwd=bed.home, env={SECRET: VALUE})
    assert said.code in (0, 1), said.err
    assert differences(regrades_of(bed.source)[-1].path, graded.path) == []
