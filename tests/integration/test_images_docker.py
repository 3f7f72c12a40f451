"""Worker images on a real Docker engine: built, scanned, and a container takes a shard from broker and store here."""

import importlib.metadata
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mst.errors import RefusedError, UsageError
from mst.fleet.embedded import find_server
from mst.fleet.keys import keygen
from mst.runners.images import PARTS, BuiltImage, Docker, ImageOrder, build_image, recipes_folder
from mst.sandboxes.docker import DockerSandbox
from mst.sandboxes.options import SandboxOptions
from mst.testing.commandline import run_mst, until
from mst.testing.engine import IMAGE, base_image, docker
from mst.testing.servers import free_ports, seaweedfs, stop

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

MINE = 10001
CANARY = "canary-" + secrets.token_hex(12)


@pytest.fixture
def engine(docker_host):
    return docker_host


@pytest.fixture(scope="module")
def base(docker_host):
    return base_image(docker_host)


@pytest.fixture(scope="module")
def built(built_images) -> BuiltImage:
    return built_images("base")


def listed_parts(engine, image):
    found = docker(engine, "run", "--rm", "--entrypoint", "cat", image, PARTS)
    return {one["name"]: one for one in json.loads(found)["components"]}


def test_it_is_small_named_by_digest_and_says_what_is_in_it(engine, built):
    assert built.digest.startswith("sha256:")
    assert built.smoke.startswith("smoke: good")
    assert built.size_bytes < 600e6
    parts = listed_parts(engine, built.digest)
    assert {"mst", "celery", "pyrage", "python3", "tini"} <= set(parts)
    assert parts["celery"]["hashes"][0]["alg"] == "SHA-256"
    facts = Docker().inspect(built.digest)["Config"]
    assert facts["User"] == "10001:10001"
    assert facts["Entrypoint"][:2] == ["tini", "--"]
    assert "mst.fleet.health" in " ".join(facts["Healthcheck"]["Test"])


def test_it_starts_fast(engine, built):
    began = time.monotonic()
    said = docker(engine, "run", "--rm", "--network", "none", "--read-only", built.digest, "--version")
    seconds = time.monotonic() - began
    sys.stderr.write(f"image: 'mst --version' in {seconds:.1f} s\n")
    assert "version" in said
    assert seconds < 15


@pytest.mark.long
def test_judges_and_plugins_come_at_the_coordinators_versions(engine, built_images):
    made = built_images("judges", plugins=["mcp-server-time"])
    assert made.smoke.startswith("smoke: good")
    assert made.size_bytes < 900e6
    parts = listed_parts(engine, made.digest)
    for name in ("pydantic-ai-slim", "openai", "anthropic", "mcp-server-time"):
        assert parts[name]["version"] == importlib.metadata.version(name)
    own = "import importlib.metadata; print(importlib.metadata.version('mcp-server-time'))"
    said = docker(engine, "run", "--rm", "--network", "none", "--entrypoint", "python", made.digest, "-c", own)
    assert said == importlib.metadata.version("mcp-server-time")


@pytest.mark.long
@pytest.mark.timeout(2700)
def test_agents_start_in_their_image(engine, built_images):
    made = built_images("agents")
    assert made.smoke.startswith("smoke: good")
    parts = listed_parts(engine, made.digest)
    assert {"@anthropic-ai/claude-code", "@openai/codex", "mini-swe-agent", "nodejs", "git", "celery"} <= set(parts)
    assert Docker().inspect(made.digest)["Config"]["User"] == "10001:10001"
    for program in ("claude", "codex", "mini"):
        began = time.monotonic()
        docker(
            engine,
            "run",
            "--rm",
            "--network",
            "none",
            "--env",
            "HOME=/tmp",
            "--entrypoint",
            program,
            made.digest,
            "--help",
        )
        sys.stderr.write(f"image agents: {program} --help in {time.monotonic() - began:.1f} s\n")


@pytest.mark.long
def test_the_proxy_of_sandboxes_is_small_and_nobody(engine, built_images):
    made = built_images("proxy")
    assert made.smoke.startswith("smoke: good")
    assert made.size_bytes < 200e6
    assert "tinyproxy-bin" in listed_parts(engine, made.digest)
    options = SandboxOptions(kind="docker", image=IMAGE, network="allowlist", allow=["a.test"], proxy="mst-test-proxy")
    assert DockerSandbox(options).faults() == []


def test_a_secret_that_a_later_layer_deletes_is_found_and_the_image_is_gone(engine, base, tmp_path):
    recipes = tmp_path / "recipes"
    (recipes / "proxy").mkdir(parents=True)
    (recipes / "smoke.sh").write_text("exit 0\n")
    (recipes / "proxy" / "Dockerfile").write_text(
        f"ARG BASE\nFROM ${{BASE}}\nRUN echo 'key={CANARY}' > /etc/k\nRUN rm /etc/k\n"
    )
    before = docker(engine, "images", "--quiet", "--all").splitlines()
    order = ImageOrder(kind="proxy", base=base, secret_values=[CANARY], recipes=recipes)
    with pytest.raises(RefusedError, match="etc/k: a value that is secret here") as caught:
        build_image(order, Docker())
    assert CANARY not in str(caught.value)
    after = docker(engine, "images", "--quiet", "--filter", "dangling=false").splitlines()
    assert set(after) <= set(before)


def test_a_base_without_a_digest_is_refused():
    with pytest.raises(UsageError, match="by digest"):
        build_image(ImageOrder(kind="base", base="debian:12", recipes=recipes_folder()), Docker())


@pytest.fixture
def host_fleet():
    """A broker on a loopback port, an S3 store and keys, all on this machine and none of it in the container."""
    (port,) = free_ports(1)
    password = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="mst-host-") as home:
        folder = Path(home)
        folder.chmod(0o755)
        (folder / "broker").mkdir()
        (folder / "broker.conf").write_text(
            f"bind 127.0.0.1\nport {port}\nrequirepass {password}\nmaxmemory-policy noeviction\n"
            f'appendonly yes\ndir "{folder / "broker"}"\nlogfile "{folder / "broker.log"}"\n'
        )
        process = subprocess.Popen([str(find_server()), str(folder / "broker.conf")], start_new_session=True)
        keys = keygen(folder / "keys", evals=["*"], queues=["*"], now=datetime.now(UTC))
        try:
            with seaweedfs(folder / "weed") as server:
                store = {"MST_STORE": server.uri("mst"), **server.environ()}
                yield folder, {"MST_BROKER_URL": f"redis://:{password}@127.0.0.1:{port}/0", **store}, keys
        finally:
            stop(process)


def test_its_worker_takes_a_shard_from_the_host_and_commits_it(engine, built, host_fleet, tmp_path):
    folder, shared, keys = host_fleet
    mine = folder / "for-worker"
    mine.mkdir()
    for name, source in {"fleet.key": keys.fleet_key, "signers.json": keys.signers}.items():
        (mine / name).write_bytes(source.read_bytes())
        (mine / name).chmod(0o600)
        os.chown(mine / name, MINE, MINE)
    os.chown(mine, MINE, MINE)
    own = {"MST_FLEET_KEY_FILE": "/run/mst/fleet.key", "MST_TRUSTED_SIGNERS_FILE": "/run/mst/signers.json"}
    environ = folder / "worker.env"
    environ.write_text("".join(f"{key}={value}\n" for key, value in {**shared, **own}.items()))
    name = f"mst-test-{secrets.token_hex(4)}"
    began = time.monotonic()
    docker(
        engine,
        *("run", "--detach", "--name", name, "--network", "host", "--read-only", "--tmpfs", "/tmp:mode=1777"),
        *("--tmpfs", f"/var/lib/mst:uid={MINE},gid={MINE},mode=700", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--env-file", str(environ)),
        *("--volume", f"{mine}:/run/mst:ro"),
        *("--stop-timeout", "30", built.digest, "worker", "--trusted"),
    )
    try:
        until(lambda: "ready" in logs(engine, name), "the worker in the container is ready", within_s=90)
        sys.stderr.write(f"image: a worker is ready {time.monotonic() - began:.1f} s after docker run\n")
        env = {**shared, "MST_SIGNING_KEY_FILE": str(keys.signing_key)}
        said = run_mst("fleet", "check", "--json", "--within", "60", cwd=tmp_path, env=env)
        assert said.code == 0, said.out + said.err + logs(engine, name)
        assert '"how": "committed"' in logs(engine, name)
        docker(engine, "exec", name, "python", "-m", "mst.fleet.health")
        docker(engine, "stop", name)
        assert docker(engine, "inspect", "--format", "{{.State.ExitCode}}", name) == "0", logs(engine, name)
    finally:
        docker(engine, "rm", "--force", name)


def logs(engine, name):
    done = subprocess.run(
        ["docker", "logs", name], env={**os.environ, "DOCKER_HOST": engine}, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr
