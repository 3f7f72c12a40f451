"""The channel contract on containers, on an engine that the test starts itself."""

from __future__ import annotations

import json
import textwrap
import threading
from itertools import count

import pytest

from mst.errors import RunnerError
from mst.sandboxes import containers
from mst.shards.container_channel import ContainerChannel, Machine
from mst.testing.channel import LONG_ENOUGH_S, ChannelContract, write_worker
from mst.testing.engine import IMAGE, own_containers

# The first test of all may have to make the base image.
pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
NUMBERS = count()


@pytest.fixture(scope="module", autouse=True)
def _engine(docker_host):
    """All of these run on a real engine."""


def channel_for(folder, script, keep="never", **changes):
    home = write_worker(folder, script)["PYTHONPATH"]
    machine = Machine(
        image=containers.image_id(IMAGE),
        network="none",
        environment={"PYTHONPATH": "/fake"},
        mounts={home: "/fake"},
        **changes,
    )
    return ContainerChannel(machine, name=f"mst-test-{next(NUMBERS)}", keep=keep)


class TestContainerChannel(ChannelContract):
    @pytest.fixture
    def make_channel(self, tmp_path):
        return lambda script: channel_for(tmp_path, script)

    @pytest.fixture(autouse=True)
    def _nothing_is_left(self):
        yield
        for container in own_containers():
            container.remove(force=True)
            pytest.fail(f"{container.name} was left")

    @pytest.fixture
    def start(self, make_channel, bundle, results):
        started = []

        def begin(script):
            channel = make_channel(script)
            process = channel.start(["grade-shard"], bundle=bundle, results=results)
            started.append((channel, process))
            return channel, process

        yield begin
        for channel, process in started:
            process.kill()
            channel.close()

    def test_kill_ends_the_worker_and_everything_that_it_started(self, start):
        _, process = start(
            "subprocess.Popen(['sleep', '600']); subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); say(up=1); time.sleep(600)"
        )
        assert json.loads(next(iter(process.lines()))) == {"up": 1}
        [container] = own_containers(running=True)
        process.kill()
        process.kill()
        assert process.wait(LONG_ENOUGH_S) == -9
        assert not process.ran_out_of_memory()
        container.reload()
        assert container.status == "exited"
        assert own_containers(running=True) == []

    def test_memory_of_a_container_is_bounded(self, tmp_path, bundle, results):
        channel = channel_for(
            tmp_path, "keep = [bytearray(b'x') * (1 << 28) for _ in range(4)]", memory_bytes=128 << 20
        )
        process = channel.start(["grade-shard"], bundle=bundle, results=results)
        assert process.wait(LONG_ENOUGH_S) == -9
        assert process.ran_out_of_memory()
        process.kill()
        channel.close()

    def test_what_a_container_writes_is_added_up_and_no_file_gets_too_large(self, tmp_path, bundle, results):
        script = """
        for name in ("one", "two"):
            with open(f"/tmp/{name}", "wb", buffering=0) as file:
                written = 0
                try:
                    while True:
                        written += file.write(bytes(1 << 20))
                except OSError as error:
                    say(written=written, why=error.strerror)
        time.sleep(600)
        """
        channel = channel_for(tmp_path, textwrap.dedent(script), file_bytes=3 << 20)
        unlimited = threading.Event()
        assert channel.used_bytes(0, unlimited) == 0, "it has none yet"
        process = channel.start(["grade-shard"], bundle=bundle, results=results)
        lines = process.lines()
        for _ in range(2):
            assert json.loads(next(lines)) == {"written": 3 << 20, "why": "File too large"}
        assert 6 << 20 <= channel.used_bytes(0, unlimited) < 8 << 20
        process.kill()
        channel.close()
        assert channel.used_bytes(0, unlimited) == 0

    @pytest.mark.parametrize(("keep", "code", "stays"), [("always", 0, 1), ("failed", 0, 0), ("failed", 3, 1)])
    def test_what_keep_says_stays_for_a_look(self, tmp_path, bundle, results, keep, code, stays):
        channel = channel_for(tmp_path, f"sys.exit({code})", keep)
        process = channel.start(["grade-shard"], bundle=bundle, results=results)
        assert process.wait(LONG_ENOUGH_S) == code
        process.kill()
        channel.close()
        left = own_containers()
        assert len(left) == stays
        assert all(container.name.endswith(containers.KEPT) for container in left)
        for container in left:
            container.remove(force=True)

    def test_an_image_that_went_away_is_no_machine(self, tmp_path, bundle, results):
        channel = ContainerChannel(Machine(image="sha256:" + "0" * 64), name="mst-test-none")
        with pytest.raises(RunnerError, match="no shard worker"):
            channel.start(["grade-shard"], bundle=bundle, results=results)
        channel.close()
