"""The docker runner for real: an image with mst in it, made here; a run collected and graded in containers."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import mst
from mst.runners.docker import DockerOptions, DockerRunner
from mst.sandboxes import containers
from mst.shards.contract import RunnerContext
from mst.testing.commandline import start_mst, until
from mst.testing.engine import IMAGE
from mst.testing.fleet import fleet
from mst.testing.modelscript import Reply, ToolUse, turns
from mst.testing.modelserver import model_server

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
MADE = "mst-test-worker:now"
SITE = "opt/site"
FOR_MODELS = ("pydantic-ai-slim", "openai", "mcp", "cryptography", "mcp-server-time", "tzdata")


def needed(name, found):
    """A distribution with everything that it needs."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    if distribution.name in found:
        return
    found[distribution.name] = distribution
    for requirement in distribution.requires or []:
        if "extra ==" not in requirement:
            needed(re.match(r"[\w.-]+", requirement)[0], found)


def archive():
    """What mst needs at run time, as this interpreter has it, and mst itself."""
    lines = (ROOT / "pyproject.toml").read_text().split("dependencies = [")[1].split("]")[0].splitlines()
    found = {}
    for line in lines:
        if name := line.strip().strip('",').split(">=")[0]:
            needed(name, found)
    for name in FOR_MODELS:
        needed(name, found)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for distribution in found.values():
            for file in distribution.files or []:
                place = Path(distribution.locate_file(file))
                if place.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                    tar.add(place, f"{SITE}/{file}")
        tar.add(Path(mst.__file__).parent, f"{SITE}/mst", filter=lambda e: None if "__pycache__" in e.name else e)
    return data.getvalue()


@pytest.fixture(scope="module")
def engine(docker_host):
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the image's Python is 3.11, and compiled packages are copied into it")
    client = containers.engine()
    container = client.containers.create(IMAGE, ["true"])
    container.put_archive("/", archive())
    container.commit(*MADE.split(":"), changes=[f"ENV PYTHONPATH=/{SITE}", "ENV PYTHONDONTWRITEBYTECODE=1"])
    container.remove()
    yield client
    assert of_image(client) == []
    client.images.remove(MADE, force=True)


@pytest.fixture
def project(tmp_path):
    cases = [{"id": f"c{n}", "input": f"word {n}", "expected": {"answer": f"word {n}"}} for n in range(6)]
    (tmp_path / "cases.yaml").write_text(json.dumps(cases))
    config = {
        "name": "in-containers",
        "datasets": [{"file": "cases.yaml"}],
        "client": "command",
        "client_options": {"argv": ["sh", "-c", "cat; hostname > where"]},
        "assertions": [{"contains_text": "word"}, {"command": {"argv": ["test", "-s", "where"]}}],
        "variants": [{"name": "a"}, {"name": "b", "client_options": {"argv": ["sh", "-c", "echo nothing"]}}],
    }
    (tmp_path / "eval.yaml").write_text(json.dumps(config))
    return tmp_path


def command(project, *argv):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "mst", *argv]
    return subprocess.run(argv, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_a_run_is_collected_and_graded_in_containers(engine, project):
    options = ["--runner-option", f"image={MADE}", "--runner-option", "shards=2", "--runner-option", "network=none"]
    ended = command(project, "run", "eval.yaml", "--runner", "docker", *options)
    assert ended.returncode in {0, 1}, ended.stderr
    records = [json.loads(path.read_text()) for path in (project / ".mst-results").rglob("transcripts/a/*/0.json")]
    assert len(records) == 6
    assert {record["status"] for record in records} == {"completed"}, records
    assert {record["identity"]["parts"]["worker"] for record in records} == {containers.image_id(MADE)}
    [run] = [json.loads(path.read_text()) for path in (project / ".mst-results").rglob("run.json")]
    options = run["environment"]["options"]
    assert (run["environment"]["name"], options["image"]) == ("docker", MADE)
    assert options["image_id"] == containers.image_id(MADE)


def test_trials_that_others_collected_travel_into_containers(engine, tmp_path):
    samples = ROOT / "tests/data/imports"
    for name in ("menu.eval", "promptfoo.json"):
        (tmp_path / name).write_bytes((samples / name).read_bytes())
    options = {"files": ["promptfoo.json"]}
    config = {
        "name": "imported",
        "datasets": [{"import": "menu.eval"}],
        "client": "import",
        "assertions": [{"contains_text": "7"}],
        "variants": [
            {"name": "inspect", "client_options": {"files": ["menu.eval"]}},
            {"name": "promptfoo", "model": "waiter", "client_options": options},
        ],
    }
    (tmp_path / "eval.yaml").write_text(json.dumps(config))
    options = ["--runner-option", f"image={MADE}", "--runner-option", "shards=2", "--runner-option", "network=none"]
    ended = command(tmp_path, "run", "eval.yaml", "--runner", "docker", *options)
    assert ended.returncode == 0, ended.stderr
    assert passed(tmp_path) == {"inspect": 1, "promptfoo": 1}


def test_a_model_is_asked_and_its_servers_run_inside_the_containers(engine, tmp_path):
    gateway = engine.networks.get("bridge").attrs["IPAM"]["Config"][0]["Gateway"]
    use = ToolUse("convert_time", {"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"})
    with model_server(turns(Reply(tools=[use]), Reply(text="It is 21:00.")), host=gateway) as server:
        config = {
            "name": "clocks",
            "datasets": [{"file": "cases.yaml"}],
            "client": "llm",
            "model": "m",
            "client_options": {"base_url": server.openai_url, "key": {"secret": "K"}, "rate_limit": "gate"},
            "rate_limits": {"providers": {"gate": {"concurrent": 1}}},
            "concurrency": 1,
            "servers": {
                "time": {"command": "{{python}}", "args": ["-m", "mcp_server_time"], "env": {"PYTHONPATH": f"/{SITE}"}}
            },
            "assertions": [{"tools_triggered": [{"name": "convert_time"}]}, {"contains_text": "21:00"}],
        }
        (tmp_path / "eval.yaml").write_text(json.dumps(config))
        (tmp_path / "cases.yaml").write_text(json.dumps([{"id": f"c{number}", "input": "?"} for number in range(4)]))
        (tmp_path / "secrets").write_text("K=k-0123456789\n")
        options = ["--runner-option", f"image={MADE}", "--runner-option", "shards=2", "--secrets-file", "secrets"]
        ended = command(tmp_path, "run", "eval.yaml", "--runner", "docker", *options)
    told = [json.loads(path.read_text()).get("error") for path in tmp_path.rglob("transcripts/**/0.json")]
    assert ended.returncode == 0, (ended.stderr, told)
    assert passed(tmp_path) == {"default": 4}
    assert server.most_at_once == 1
    assert server.keys.keys() == {"k-0123456789"}


def test_a_worker_of_a_fleet_gives_each_shard_a_container(engine, project):
    collected = command(project, "run", "eval.yaml", "--no-grade")
    assert collected.returncode == 0, collected.stderr
    [run] = (project / ".mst-results").rglob("runs/*")
    with fleet(project) as running:
        host = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
        worker = running.start(
            "--shard-image", MADE, "--shard-memory", "1", "--shard-disk", "2", env=host, trusted=False
        )
        ended = start_mst(
            "grade", run, "--runner", "celery", "--runner-option", "shards=1", cwd=project, env=running.coordinator
        )
        said, told = ended.communicate(timeout=300)
        assert ended.returncode in {0, 1}, (told, worker.log)
        manifests = [json.loads(path.read_text()) for path in project.glob("store/**/shards/*/manifest.json")]
        assert {manifest["machine"]["image"] for manifest in manifests} == {containers.image_id(MADE)}, said
        assert worker.drain() == 0
    assert of_image(engine) == []


@pytest.mark.long
def test_a_shard_that_fills_its_container_is_ended_and_its_unit_given_up(engine, project):
    fill = "read word; case $word in *2) for n in 1 2 3 4; do head -c 20000000 /dev/zero > $n; done; sleep 600;; esac"
    (project / "eval.yaml").write_text(
        json.dumps(
            {
                "name": "filling",
                "datasets": [{"file": "cases.yaml"}],
                "client": "command",
                "client_options": {"argv": ["sh", "-c", f"{fill}; echo $word"]},
                "assertions": [{"contains_text": "word"}],
            }
        )
    )
    with fleet(project) as running:
        host = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
        options = ("--work", "collect", "--shard-image", MADE, "--shard-disk", "0.05")
        worker = running.start(*options, env=host, trusted=False)
        run = ("run", "eval.yaml", "--runner", "celery", "--runner-option", "shards=1", "--runner-option", "wait=true")
        said, told = start_mst(*run, cwd=project, env=running.coordinator).communicate(timeout=300)
        assert "it used more disk than a shard may" in told, (said, worker.log)
        assert worker.log.count("the shard used more than the 0.05 GiB of disk that it may") == 2, worker.log
    records = [json.loads(path.read_text()) for path in (project / ".mst-results").rglob("transcripts/*/*/0.json")]
    assert len([record for record in records if record["status"] == "completed"]) == 5, told


def passed(project):
    [summary] = [json.loads(path.read_text()) for path in (project / ".mst-results").rglob("summary.json")]
    return {variant["name"]: variant["result"]["passed"] for variant in summary["variants"]}


def test_an_image_that_is_not_here_is_refused_before_anything_starts(engine, project):
    ended = command(project, "run", "eval.yaml", "--runner", "docker", "--runner-option", "image=nowhere:latest")
    assert ended.returncode == 2
    assert "nowhere:latest" in ended.stderr


def test_an_image_without_mst_is_told_in_its_own_words(engine, project):
    ended = command(project, "run", "eval.yaml", "--runner", "docker", "--runner-option", f"image={IMAGE}")
    assert ended.returncode != 0
    assert "No module named mst" in ended.stderr + ended.stdout


def test_what_the_images_name_stood_for_is_recorded(engine, tmp_path):
    context = RunnerContext(
        run_id="r", eval_name="e", work="collect", scratch=tmp_path, results_root=tmp_path, environment={}
    )
    runner = DockerRunner.open(DockerOptions(image=MADE, memory="1g"), context)
    recorded = runner.recorded_options()
    assert (recorded["image"], recorded["image_id"], recorded["memory"]) == (MADE, containers.image_id(MADE), 1 << 30)
    runner.close()


def test_another_version_of_mst_in_the_image_ends_the_shard_and_is_named(engine, project):
    other = engine.containers.create(MADE, ["true"])
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        code = b'import mst; mst.__version__ = "0.0.7"'
        entry = tarfile.TarInfo(f"{SITE}/sitecustomize.py")
        entry.size = len(code)
        tar.addfile(entry, io.BytesIO(code))
    other.put_archive("/", data.getvalue())
    image = other.commit("mst-test-worker", "other", changes=[f"ENV PYTHONPATH=/{SITE}"])
    other.remove()
    try:
        ended = command(project, "run", "eval.yaml", "--runner", "docker", "--runner-option", f"image={image.id}")
        assert ended.returncode != 0
        assert "the worker has mst 0.0.7, the coordinator" in ended.stderr + ended.stdout
    finally:
        engine.images.remove(image.id, force=True)


def test_containers_of_a_coordinator_that_was_killed_go_with_the_next_start(engine, project):
    config = json.loads((project / "eval.yaml").read_text())
    slow = {
        **config,
        "name": "slow",
        "client_options": {"argv": ["sleep", "1000"], "input": "none"},
        "variants": [{"name": "a"}],
    }
    (project / "slow.yaml").write_text(json.dumps(slow))
    runner = ["--runner", "docker", "--runner-option", f"image={MADE}", "--runner-option", "network=none"]
    process = start_mst("run", "slow.yaml", *runner, "--runner-option", "shards=2", cwd=project)
    try:
        until(lambda: len(of_image(engine, status="running")) == 2, "both shards run")
    finally:
        process.kill()
        process.communicate()
    assert command(project, "run", "eval.yaml", *runner).returncode in {0, 1}
    assert of_image(engine) == []


def of_image(engine, **filters):
    return engine.containers.list(all=True, filters={"ancestor": MADE, **filters}, ignore_removed=True)
