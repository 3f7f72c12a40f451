"""A broker on another machine: TLS, with an authority that the machine trusts or that the URL names, and a user."""

import secrets
import subprocess
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import redis
from kombu.exceptions import OperationalError

from mst.fleet.app import make_app
from mst.fleet.embedded import find_server
from mst.testing.commandline import ended, run_mst, start_mst, until
from mst.testing.fleet import Fleet
from mst.testing.servers import ValkeyServer, free_ports, stop
from mst.testing.tls import tls_front

pytestmark = pytest.mark.server

RULES = Path(__file__).parents[2] / "infra" / "terraform" / "modules" / "aws" / "broker" / "policies" / "broker-acl.txt"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A Valkey behind TLS with the fleet's user; `url(query)` names it as one on another machine."""
    home = tmp_path_factory.mktemp("broker")
    (port,) = free_ports(1)
    password, other = secrets.token_hex(16), secrets.token_hex(16)
    rules = RULES.read_text().strip()
    (home / "users").write_text(f"user default on >{other} ~* &* +@all\nuser mst >{password} {rules}\n")
    config, log = home / "conf", home / "log"
    config.write_text(
        f'bind 127.0.0.1\nport {port}\naclfile "{home / "users"}"\nmaxmemory-policy noeviction\nappendonly yes\n'
        f'dir "{home}"\nlogfile "{log}"\n'
    )
    process = subprocess.Popen([str(find_server()), str(config)], start_new_session=True)
    inner = f"redis://mst:{password}@127.0.0.1:{port}/0"
    client = redis.Redis.from_url(inner)

    def answers():
        try:
            return client.ping()
        except redis.ConnectionError:
            return False

    try:
        until(answers, "the broker answers")
        with tls_front(port, home / "tls") as front:
            place = f"{front.address}:{front.port}/0"
            yield SimpleNamespace(
                inner=ValkeyServer(url=inner, program="", config=config, log=log, process=process),
                url=lambda query: f"rediss://mst:{password}@{place}{query}",
                default_url=lambda query: f"rediss://default:{other}@{place}{query}",
                named=f"?ssl_ca_certs={quote(str(front.ca_file), safe='')}",
                ca_file=front.ca_file,
            )
    finally:
        client.close()
        stop(process)


def check(broker, url, tmp_path, **more):
    """What `mst fleet check` says with a worker that uses the same broker URL."""
    home = tmp_path / "fleet"
    home.mkdir()
    one = Fleet(home, broker.inner, f"file:{tmp_path / 'store'}", {})
    try:
        worker = one.start(env={"MST_BROKER_URL": url, **more})
        said = run_mst(
            "fleet", "check", "--within", "60", cwd=tmp_path, env={**one.coordinator, "MST_BROKER_URL": url, **more}
        )
        return said, worker.log
    finally:
        one.stop()


def test_the_machine_trusts_the_authority(broker, tmp_path):
    said, log = check(broker, broker.url(""), tmp_path, SSL_CERT_FILE=str(broker.ca_file))
    assert said.code == 0, said.out + said.err + log


def test_a_certificate_of_an_authority_that_nobody_trusts_is_refused_in_one_line(broker, tmp_path):
    said = run_mst("fleet", "status", cwd=tmp_path, env={"MST_BROKER_URL": broker.url("")})
    assert said.code == 4
    [line] = said.error_lines
    assert "certificate" in line
    assert "ssl_ca_certs" in line


def test_celery_does_not_take_it_either(broker):
    app = make_app(broker.url(""))
    with app.connection() as connection, pytest.raises(OperationalError, match="certificate"):
        connection.ensure_connection(max_retries=1, interval_start=0, errback=None)
    with make_app(broker.url(broker.named)).connection() as connection:
        connection.ensure_connection(max_retries=1)


def test_tls_that_looks_at_nothing_is_refused(broker, tmp_path):
    for weak in ("ssl_cert_reqs=none", "ssl_cert_reqs=optional", "ssl_check_hostname=false"):
        said = run_mst("fleet", "status", cwd=tmp_path, env={"MST_BROKER_URL": broker.url(f"?{weak}")})
        assert said.code == 2
        assert "protects nothing" in said.err
    said = run_mst("fleet", "status", cwd=tmp_path, env={"MST_BROKER_URL": broker.url("?ssl_ca_certs=gone.pem")})
    assert said.code == 2
    assert "no such file: gone.pem" in said.err


def test_a_certificate_for_another_name_is_refused(broker, tmp_path):
    url = broker.url(broker.named).replace("127.0.0.2", "127.0.0.3")
    with make_app(url).connection() as connection, pytest.raises(OperationalError, match=r"(?i)certificate|refused"):
        connection.ensure_connection(max_retries=1, interval_start=0, errback=None)


def test_the_default_user_is_taken_only_where_it_is_said_and_the_url_may_name_the_authority(broker, tmp_path):
    env = {"MST_BROKER_URL": broker.default_url(broker.named)}
    said = run_mst("doctor", cwd=tmp_path, env=env)
    assert "MST_BROKER_DEFAULT_USER" in said.out
    said, log = check(broker, broker.default_url(broker.named), tmp_path, MST_BROKER_DEFAULT_USER="accept")
    assert said.code == 0, said.out + said.err + log
    assert "default user" in log


def test_flower_shows_a_broker_behind_tls(broker, tmp_path):
    (port,) = free_ports(1)
    process = start_mst(
        *("flower", "--port", str(port)), cwd=tmp_path, env={"MST_BROKER_URL": broker.url(broker.named)}
    )
    place = f"http://127.0.0.1:{port}"

    def get(path):
        try:
            with urllib.request.urlopen(f"{place}{path}", timeout=10) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    try:
        until(lambda: get("/healthcheck"), "Flower answers")
        page = get("/broker")
    finally:
        process.kill()
        said = ended(process)
    assert "mst.grade" in page or "Queue" in page, said.err
    assert "insecure" not in said.err
