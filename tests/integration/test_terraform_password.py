"""The script that gives the fleet's broker user its password on AWS: with the real command line, Secrets Manager by
moto, and a broker behind an endpoint that speaks ElastiCache's ModifyUser (moto does not)."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import redis

from mst.testing.servers import valkey

pytestmark = pytest.mark.server
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "infra" / "terraform" / "scripts" / "set-broker-password"
ACL = (ROOT / "infra" / "terraform" / "modules" / "aws" / "broker" / "policies" / "broker-acl.txt").read_text().strip()
BOX = "mst-broker-url"


@pytest.fixture
def broker(tmp_path):
    with valkey(tmp_path) as running:
        yield running


def on_broker(broker, user=None, password=None):
    parts = urlsplit(broker.url)
    return redis.Redis(
        unix_socket_path=parts.path, username=user, password=password or parts.password, decode_responses=True
    )


@pytest.fixture
def elasticache(broker):
    """Takes ModifyUser as AWS documents it, and does to the broker what it says."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            asked.append(form)
            passwords = [value for name, value in form.items() if re.search(r"Passwords\.\w+\.\d+$", name)]
            rules = form["AccessString"].split()
            with on_broker(broker) as client:
                client.execute_command(
                    "ACL", "SETUSER", form["UserId"], "reset", *rules, *(f">{one}" for one in passwords)
                )
            self.send_response(200)
            self.send_header("Content-Type", "text/xml")
            self.end_headers()
            self.wfile.write(b"<ModifyUserResponse><ModifyUserResult/></ModifyUserResponse>")

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def moto_url():
    server = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


def test_the_user_gets_a_password_that_nobody_sees_and_keeps_the_old_one_once(broker, elasticache, moto_url, tmp_path):
    if shutil.which("aws") is None:
        reason = "NOT CHECKED: infra/terraform/scripts/set-broker-password, since the aws command line is not on PATH"
        sys.stderr.write(f"{reason}\n")
        pytest.skip(reason)
    url, asked = elasticache
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
        "AWS_ENDPOINT_URL": moto_url,
        "AWS_ENDPOINT_URL_ELASTICACHE": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "HOME": str(tmp_path),
    }
    subprocess.run(
        ["aws", "secretsmanager", "create-secret", "--name", BOX, "--output", "text"],
        env=env,
        check=True,
        capture_output=True,
    )
    user = f"u{secrets.token_hex(4)}"
    outputs = {
        "broker": {"value": {"user_id": user, "user_name": user, "host": "broker.example", "port": 6379, "acl": ACL}},
        "secrets": {"value": {"broker_url": BOX}},
    }

    def once():
        done = subprocess.run(
            [SCRIPT], input=json.dumps(outputs), env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        import boto3

        client = boto3.client(
            "secretsmanager",
            "eu-central-1",
            endpoint_url=moto_url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        stored = client.get_secret_value(SecretId=BOX)["SecretString"]
        parts = urlsplit(stored)
        assert (parts.scheme, parts.username, parts.hostname, parts.port) == ("rediss", user, "broker.example", 6379)
        assert parts.password not in done.stdout + done.stderr
        with on_broker(broker, user, parts.password) as client:
            assert client.ping()
        return parts.password

    first, second = once(), once()
    assert first != second
    with on_broker(broker, user, first) as client:
        assert client.ping(), "workers that still have the old one go on"
    once()
    with on_broker(broker, user, first) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    assert {one["Action"] for one in asked} == {"ModifyUser"}
