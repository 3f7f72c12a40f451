"""The broker's access rules as a file: a fleet works under them, and its user can do nothing else."""

import secrets
import subprocess
from pathlib import Path

import pytest
import redis

from mst.fleet.embedded import find_server
from mst.testing.commandline import run_mst, until
from mst.testing.fleet import Fleet
from mst.testing.servers import ValkeyServer, free_ports, stop

pytestmark = pytest.mark.server

RULES = Path(__file__).parents[2] / "infra" / "terraform" / "modules" / "aws" / "broker" / "policies" / "broker-acl.txt"


@pytest.fixture
def broker(tmp_path):
    """A Valkey on a loopback port, whose default user is off and whose fleet user has the rules of the file."""
    (port,) = free_ports(1)
    password = secrets.token_hex(16)
    rules = RULES.read_text().strip()
    assert rules.startswith("on ")
    (tmp_path / "users").write_text(f"user default off\nuser mst >{password} {rules}\n")
    config, log = tmp_path / "conf", tmp_path / "log"
    config.write_text(
        f'bind 127.0.0.1\nport {port}\naclfile "{tmp_path / "users"}"\nmaxmemory-policy noeviction\nappendonly yes\n'
        f'dir "{tmp_path}"\nlogfile "{log}"\n'
    )
    url = f"redis://mst:{password}@127.0.0.1:{port}/0"
    process = subprocess.Popen([str(find_server()), str(config)], start_new_session=True)
    client = redis.Redis.from_url(url, decode_responses=True)

    def answers():
        try:
            return client.ping()
        except redis.ConnectionError:
            return False

    try:
        until(answers, "the broker answers")
        yield ValkeyServer(url=url, program="", config=config, log=log, process=process), client
    finally:
        client.close()
        stop(process)


def test_a_fleet_works_under_the_rules(broker, tmp_path):
    server, _ = broker
    home = tmp_path / "fleet"
    home.mkdir()
    one = Fleet(home, server, f"file:{tmp_path / 'store'}", {})
    try:
        worker = one.start()
        said = run_mst("fleet", "check", "--within", "60", cwd=tmp_path, env=one.coordinator)
        assert said.code == 0, said.out + said.err + worker.log
        said = run_mst("fleet", "scale", "--json", cwd=tmp_path, env=one.coordinator)
        assert said.code == 0, said.err
        assert worker.drain() == 0
        assert "NOPERM" not in worker.log + server.log.read_text()
        assert "permission" not in worker.log.lower()
    finally:
        one.stop()


@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*"), ("SHUTDOWN",), ("ACL", "LIST"), ("MONITOR",),
        ("SET", "other:key", "1"), ("GET", "other:key"), ("REPLICAOF", "NO", "ONE"), ("PUBLISH", "other", "x"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_its_user_can_do_nothing_else(broker, command):
    _, client = broker
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)
