"""Docker under the contract with its escape attempts, on an engine that the test starts itself."""

from __future__ import annotations

import pytest

from mst.sandboxes import docker
from mst.sandboxes.docker import DockerSandbox
from mst.sandboxes.options import SandboxOptions
from mst.testing.engine import IMAGE, docker_engine
from mst.testing.sandbox import IsolatingSandboxContract

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def _engine(tmp_path_factory):
    pytest.importorskip("docker")
    with docker_engine(tmp_path_factory.mktemp("engine")) as host, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", host)
        docker.engine.cache_clear()
        yield
        docker.engine().close()
        docker.engine.cache_clear()


class TestDocker(IsolatingSandboxContract):
    counts_refused_processes = False

    def make(self, options):
        return DockerSandbox(options.model_copy(update={"kind": "docker", "image": IMAGE}))

    @pytest.fixture(autouse=True)
    def _nothing_is_left(self):
        yield
        assert docker.engine().containers.list(all=True) == []


def test_an_image_that_is_not_here_is_named_before_any_trial():
    assert "no-such-image" in DockerSandbox(SandboxOptions(kind="docker", image="no-such-image")).faults()[0]


def test_what_a_dead_process_left_is_reaped_and_the_rest_is_not():
    engine = docker.engine()
    kept = engine.containers.create(IMAGE, ["true"], labels={docker.LABEL: "1"})
    lost = engine.containers.create(IMAGE, ["true"], labels={docker.LABEL: "999999"})
    other = engine.containers.create(IMAGE, ["true"])
    try:
        assert docker.reap(lambda pid: pid == 1) == [lost.name]
        assert {container.name for container in engine.containers.list(all=True)} == {kept.name, other.name}
    finally:
        kept.remove()
        other.remove()
