"""Docker under the contract with its escape attempts, on a real engine; once more where names are allowed."""

from __future__ import annotations

import secrets

import pytest

from mst.process.owner import owner
from mst.sandboxes import containers, egress
from mst.sandboxes.docker import DockerSandbox
from mst.sandboxes.options import SandboxOptions
from mst.testing.engine import IMAGE, own_containers
from mst.testing.sandbox import IsolatingSandboxContract, SandboxScenes

# The first test of all may have to make the base image.
pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

SERVER = """
import socket, threading
def serve(port):
    with socket.create_server(("", port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                head = b""
                while b"\\r\\n\\r\\n" not in head and (piece := connection.recv(65536)):
                    head += piece
                connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 7\\r\\n\\r\\nserved\\n")
for port in (80, 443, 8443):
    threading.Thread(target=serve, args=(port,)).start()
"""
ASK = """
import socket, sys
def ask(lines):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as way:
        way.sendall(lines.replace("|", "\\r\\n").encode())
        answer = way.recv(4096)
        if b" 200 " in answer[:20] and lines.startswith("CONNECT"):
            way.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
            answer = way.recv(4096)
        return (answer + b"   ").split(b"\\r\\n")[0].split()[1].decode() if answer else "nothing"
for lines in sys.argv[2:]:
    print(ask(lines))
"""
NAMES = ["good.test", "deep.below.test", "below.test", "evil.test", "good.test.evil.test"]


@pytest.fixture(scope="module", autouse=True)
def _engine(docker_host):
    """All of these run on a real engine."""


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    assert own_containers() == []


class Docker(SandboxScenes):
    kind = "docker"

    def make(self, options):
        return DockerSandbox(options)

    def options(self, **changes):
        return super().options(**{"image": IMAGE, **changes})


class Allowlist(Docker):
    def options(self, **changes):
        allowed = {"network": "allowlist", "allow": ["good.test", "*.below.test"], "proxy": IMAGE}
        return super().options(**(changes if "network" in changes else {**allowed, **changes}))


class TestDocker(Docker, IsolatingSandboxContract):
    counts_refused_processes = False

    def test_a_door_is_answered_here_whatever_the_network_is(self, tmp_path):
        async def scene(inside):
            async def serve(reader, writer):
                writer.write(b"from outside")
                writer.close()

            door = await inside.door(serve)
            code = f"import socket; print(socket.create_connection(('127.0.0.1', {door.port})).recv(99).decode())"
            return await self.run(inside, tmp_path, [*door.prefix, "python3", "-c", code])

        for network in ("none", "open"):
            assert self.within(tmp_path, scene, self.options(network=network)).stdout == b"from outside\n"


@pytest.fixture(scope="module")
def street():
    """A network with a server of many names, on which the proxy goes out."""
    engine = containers.engine()
    network = engine.networks.create(f"mst-test-{secrets.token_hex(4)}")
    server = engine.containers.create(IMAGE, ["python3", "-c", SERVER], labels={containers.LABEL: "a-test"})
    try:
        network.connect(
            server, aliases=["good.test", "deep.below.test", "below.test", "evil.test", "good.test.evil.test"]
        )
        server.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(egress, "_NETWORK", network.name)
            server.reload()
            yield server.attrs["NetworkSettings"]["Networks"][network.name]["IPAddress"]
    finally:
        server.remove(force=True)
        network.remove()


@pytest.mark.long
class TestDockerWithAnAllowlist(Allowlist, IsolatingSandboxContract):
    """All of the contract; what has to do with the network is below."""

    counts_refused_processes = False


class TestNamesThatAreAllowed(Allowlist):
    def asked(self, folder, *lines):
        """Statuses of requests that a program inside sends to its proxy."""
        argv = ["python3", "-c", ASK, str(egress.PORT), *lines]
        result = self.within(folder, lambda inside: self.run(inside, folder, argv))
        assert result.exit_code == 0, result
        return result.stdout.decode().split()

    def test_names_that_are_allowed_pass(self, tmp_path, street):
        asked = self.asked(
            tmp_path,
            "GET http://good.test/ HTTP/1.1|Host: good.test||",
            "GET http://GOOD.test/ HTTP/1.1|Host: good.test||",
            "GET http://deep.below.test/ HTTP/1.1|Host: deep.below.test||",
            "CONNECT good.test:443 HTTP/1.1||",
        )
        assert asked == ["200"] * 4
        assert self.findings["proxy"] == {"asked": 4}

    def test_everything_else_is_refused_and_told(self, tmp_path, street):
        asked = self.asked(
            tmp_path,
            "GET http://evil.test/ HTTP/1.1|Host: good.test||",
            "GET http://good.test.evil.test/ HTTP/1.1|Host: good.test.evil.test||",
            "GET http://below.test/ HTTP/1.1|Host: below.test||",
            "GET http://good.test@evil.test/ HTTP/1.1|Host: good.test||",
            "GET / HTTP/1.1|Host: evil.test||",
            f"GET http://{street}/ HTTP/1.1|Host: good.test||",
            f"CONNECT {street}:443 HTTP/1.1|Host: good.test||",
            "CONNECT evil.test:443 HTTP/1.1||",
            "CONNECT good.test:8443 HTTP/1.1||",
            "CONNECT [::1]:443 HTTP/1.1||",
        )
        assert asked == ["403"] * 10
        refused = self.findings["proxy"]["refused"]
        assert refused == {
            "evil.test": 4, "good.test.evil.test": 1, "below.test": 1, street: 2, "port 8443": 1, "::1": 1,
        }  # fmt: skip

    def test_there_is_no_way_around_the_proxy(self, tmp_path, street):
        code = (
            "import socket, os\n"
            "print(sorted(os.listdir('/sys/class/net')))\n"
            "def go(*place):\n"
            "    try: socket.create_connection(place, timeout=3); print('reached', place)\n"
            "    except OSError as error: print('no')\n"
            f"go('{street}', 80); go('good.test', 80); go('172.17.0.1', 22); go('1.1.1.1', 443)\n"
            "question = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4data\\4test\\0\\0\\1\\0\\1'\n"
            f"for server in ('{street}', '127.0.0.11', '8.8.8.8', '172.17.0.1'):\n"
            "    way = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); way.settimeout(1)\n"
            "    try: way.sendto(question, (server, 53)); print(way.recv(99))\n"
            "    except OSError as error: print('no')\n"
        )
        said = self.script(tmp_path, code).stdout.decode().splitlines()
        assert said == ["['lo']", *["no"] * 8]

    def test_programs_that_look_for_a_proxy_find_it(self, tmp_path, street):
        code = (
            "import urllib.request, urllib.error\n"
            "print(urllib.request.urlopen('http://good.test/').read())\n"
            "try: urllib.request.urlopen('http://evil.test/')\n"
            "except urllib.error.HTTPError as error: print(error.code)\n"
        )
        assert self.script(tmp_path, code).stdout.decode().split() == ["b'served\\n'", "403"]
        assert self.findings["proxy"]["refused"] == {"evil.test": 1}


class TestServersBeside(Docker):
    """A server in a container beside its program's."""

    def test_its_secrets_and_processes_are_out_of_the_program_s_reach(self, tmp_path):
        async def scene(inside):
            server = ["sh", "-c", 'read line; echo "$TOKEN"; while read line; do :; done']
            beside = await inside.beside(server, cwd=tmp_path / "workspace", env={"TOKEN": "the-server-s"})
            assert dict(beside.env) == {}
            code = (
                "import glob, subprocess, sys\n"
                "server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
                "server.stdin.write(b'x\\n'); server.stdin.flush()\n"
                "print('answer', server.stdout.readline().decode().strip())\n"
                "places = glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline')\n"
                "seen = [open(place, 'rb').read() for place in places]\n"
                "print(any(b'the-server' + b'-s' in text or b'while' + b' read' in text for text in seen))\n"
            )
            argv = [*beside.prefix, "python3", "-c", code, *beside.argv]
            return await self.run(inside, tmp_path, argv, env=beside.env)

        assert self.within(tmp_path, scene).stdout.decode().split() == ["answer", "the-server-s", "False"]

    def test_one_of_another_image_is_told_by_its_id(self, tmp_path):
        async def scene(inside):
            beside = await inside.beside(["echo", "hello"], cwd=tmp_path / "workspace", env={}, image=IMAGE)
            return await self.run(inside, tmp_path, [*beside.prefix, *beside.argv], stdin=b"")

        assert self.within(tmp_path, scene).stdout == b"hello\n"
        assert self.findings["serverImages"] == [containers.image_id(IMAGE)]

    def test_a_program_cannot_start_them_without_end(self, tmp_path):
        async def scene(inside):
            beside = await inside.beside(["sleep", "300"], cwd=tmp_path / "workspace", env={})
            code = (
                "import socket, sys, time\n"
                "port = int(sys.argv[-1])\n"
                "ways = [socket.create_connection(('127.0.0.1', port), timeout=30) for _ in range(20)]\n"
                "closed = 0\n"
                "for way in ways[4:]:\n"
                "    closed += way.recv(1) == b''\n"
                "print(closed)\n"
            )
            running = self.run(inside, tmp_path, [*beside.prefix, "python3", "-c", code, *beside.argv])
            result = await running
            assert len(own_containers()) <= 4
            return result

        assert self.within(tmp_path, scene).stdout == b"16\n"

    def test_one_that_cannot_be_started_is_told(self, tmp_path):
        async def scene(inside):
            beside = await inside.beside(["true"], cwd=tmp_path / "not-there", env={})
            return await self.run(inside, tmp_path, [*beside.prefix, *beside.argv], stdin=b"")

        assert self.within(tmp_path, scene).stdout == b""
        assert self.findings["serversFailed"] == ["true: its working folder does not exist"]


def test_an_image_that_is_not_here_is_named_before_any_trial():
    assert "no-such-image" in DockerSandbox(SandboxOptions(kind="docker", image="no-such-image")).faults()[0]


def test_a_proxy_that_is_not_here_is_named_with_what_makes_it():
    options = SandboxOptions(kind="docker", image=IMAGE, network="allowlist", allow=["a.test"], proxy="no-such-image")
    [fault] = DockerSandbox(options).faults()
    assert "sandbox.proxy: no-such-image: make it with: mst images build proxy" in fault


def test_a_program_that_the_image_lacks_is_named_before_any_trial():
    sandbox = DockerSandbox(SandboxOptions(kind="docker", image=IMAGE))
    assert sandbox.program_fault("python3") is None
    assert sandbox.program_fault("/usr/bin/python3") is None
    assert "no-such-program: no such program in the image" in sandbox.program_fault("no-such-program")


def test_what_a_dead_process_left_is_reaped_and_the_rest_is_not():
    engine = containers.engine()
    number, started, space = owner().split("-")
    labels = {
        "mine": owner(),
        "another": "1-0-1",
        "not ours": "somebody",
        "dead": f"999999-1-{space}",
        "number used again": f"{number}-{int(started) - 1}-{space}",
    }
    made = {
        what: engine.containers.create(IMAGE, ["true"], labels={containers.LABEL: label})
        for what, label in labels.items()
    }
    kept = engine.containers.create(
        IMAGE, ["true"], labels={containers.LABEL: labels["dead"]}, name=f"mst-test-{secrets.token_hex(4)}-kept"
    )
    try:
        expected = {made["dead"].name, made["number used again"].name}
        assert expected <= set(containers.reap())
        left = {container.name for container in engine.containers.list(all=True)}
        assert {kept.name, *(c.name for c in made.values())} - left == expected
    finally:
        for container in engine.containers.list(all=True):
            if container.name in {kept.name, *(c.name for c in made.values())}:
                container.remove()
