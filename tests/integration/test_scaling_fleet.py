"""`mst fleet check`, `status` and `scale` on a real fleet, and a worker on a machine that a local server plays."""

import json
import os
import signal
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mst.cli.fleet_check import probe
from mst.fleet.connect import connect
from mst.fleet.scale import read_signal
from mst.fleet.scale_rules import ScaleRules
from mst.testing.commandline import ended, environment, run_mst, start_mst, until
from mst.testing.fleet import GRADE_QUEUE, Bed, fleet

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        yield Bed(running, tmp_path_factory.mktemp("quiz"))


def mst(bed, *arguments, home, env=None):
    return run_mst(*arguments, cwd=home, env={**bed.fleet.coordinator, **(env or {})})


def test_check_is_green_through_a_real_worker_and_leaves_the_dispatch_closed(bed, tmp_path):
    """Also with a key that is named as the how-tos name it: from the folder where the command is given."""
    bed.ready(1)
    (keys := tmp_path / "keys").symlink_to(Path(bed.fleet.coordinator["MST_SIGNING_KEY_FILE"]).parent)
    env = {"MST_SIGNING_KEY_FILE": "keys/signing.key"}
    said = mst(bed, "fleet", "check", "--json", "--within", "60", home=tmp_path, env=env)
    assert said.code == 0, said.out + said.err
    assert json.loads(said.out)["ok"] is True
    assert list(tmp_path.iterdir()) == [keys]
    state = json.loads(mst(bed, "fleet", "status", "--json", home=tmp_path).out)
    assert state["dispatches"] == []
    assert set(bed.fleet.workers) <= set(state["workers"][GRADE_QUEUE])


def test_check_is_red_when_nobody_serves(bed, tmp_path):
    bed.ready(0)
    said = mst(bed, "fleet", "check", "--class", "nobody", "--within", "20", home=tmp_path)
    assert said.code == 4
    assert "no worker serves the queue" in said.out


def test_check_is_red_when_the_worker_is_frozen(bed, tmp_path):
    bed.ready(1)
    (worker,) = bed.fleet.workers.values()
    os.kill(worker.process.pid, signal.SIGSTOP)
    try:
        found = probe(environment(**bed.fleet.coordinator), worker_class=None, within_s=6)
    finally:
        os.kill(worker.process.pid, signal.SIGCONT)
    assert not found.ok
    assert found.detail


def test_the_signal_counts_what_waits_and_what_runs(bed, tmp_path):
    bed.ready(1)
    bed.quiz.ask("hold")
    running = bed.start(shards=3)
    client = connect(bed.fleet.broker.url)
    found = until(
        lambda: (seen := read_signal(client, [GRADE_QUEUE])).running == 1 and seen.queued == 2 and seen,
        "one shard runs and two wait",
    )
    # one that an earlier test killed is still taken for there until its mark ends
    assert found.workers in (1, 2)
    assert (found.backlog_per_worker, found.expired) == (3 / found.workers, 0)
    said = mst(bed, "fleet", "scale", "--json", "--max", "2", "--pool", "p", home=tmp_path)
    assert said.code == 0, said.err
    values = json.loads(said.out)
    assert (values["queued"], values["running"], values["desired"], values["pool"]) == (2, 1, 2, "p")
    shown = mst(bed, "fleet", "status", home=tmp_path).out
    assert "2 queued, 1 running" in shown.replace("1 running, 2 queued", "2 queued, 1 running")
    bed.quiz.let_go("hold")
    assert ended(running).code in (0, 1)
    assert read_signal(client, [GRADE_QUEUE]).backlog == 0
    client.close()


def test_prometheus_reads_the_signal_and_it_ends_on_sigterm(bed, tmp_path):
    bed.ready(1)
    process = start_mst(
        *("fleet", "scale", "--every", "1", "--publish", "prometheus", "--metrics-port", "0", "--json", "--janitor"),
        cwd=tmp_path,
        env=bed.fleet.coordinator,
    )
    try:
        line = process.stdout.readline()
        assert json.loads(line)["workers"] >= 1
    finally:
        process.send_signal(signal.SIGTERM)
    assert ended(process).code == 0


class Metadata:
    """Plays an instance's metadata service (IMDSv2: a token first) and the scaling API behind it."""

    def __init__(self):
        self.plans = {}
        self.calls = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self):
                outer.answer(self, "token" if self.path == "/latest/api/token" else None)

            def do_GET(self):
                if self.headers.get("X-aws-ec2-metadata-token") != "token":
                    self.send_error(401)
                    return
                known = {
                    "/latest/meta-data/instance-id": "i-1234567890abcdef0",
                    "/latest/meta-data/placement/region": "eu-central-1",
                }
                outer.answer(self, (known | outer.plans).get(self.path))

            def log_message(self, *_arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def answer(handler, text):
        if text is None:
            handler.send_error(404)
            return
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(text.encode())

    def plan(self, path, text):
        self.plans = {**self.plans, f"/latest/meta-data/{path}": text}


@pytest.fixture
def metadata():
    served = Metadata()
    yield served
    served.server.shutdown()
    served.server.server_close()


def test_a_spot_notice_drains_the_worker_and_the_shard_is_finished_elsewhere(bed, metadata, simulated_aws):
    bed.ready(0)
    aws = cloud_environment(metadata, simulated_aws)
    worker = bed.fleet.start("--cloud", "aws", env=aws)
    bed.quiz.ask("hold")
    running = bed.start(shards=1)
    until(lambda: bed.quiz.lines("held"), "the shard runs on the cloud worker")
    second = bed.fleet.start()
    metadata.plan("spot/instance-action", '{"action": "terminate", "time": "2026-01-01T00:00:00Z"}')
    until(lambda: '"step": "drain"' in worker.log, "it sees the notice")
    bed.quiz.let_go("hold")
    assert worker.process.wait(60) == 0, worker.log
    said = ended(running)
    assert said.code in (0, 1), said.err
    assert "attempt_ended" in second.log or "committed" in worker.log
    assert "machine_not_ended" not in worker.log


def test_an_idle_machine_ends_itself_and_its_group_is_smaller(bed, metadata, simulated_aws):
    import boto3

    bed.ready(0)
    aws = cloud_environment(metadata, simulated_aws)
    credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "endpoint_url": simulated_aws}
    groups = boto3.client("autoscaling", "eu-central-1", **credentials)
    ec2 = boto3.client("ec2", "eu-central-1", **credentials)
    ec2.create_launch_template(
        LaunchTemplateName="workers", LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "t3.micro"}
    )
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    groups.create_auto_scaling_group(
        AutoScalingGroupName="g", MinSize=0, MaxSize=2, DesiredCapacity=1, VPCZoneIdentifier=subnet,
        LaunchTemplate={"LaunchTemplateName": "workers"}, NewInstancesProtectedFromScaleIn=True,
    )  # fmt: skip

    def group():
        return groups.describe_auto_scaling_groups(AutoScalingGroupNames=["g"])["AutoScalingGroups"][0]

    metadata.plan("instance-id", group()["Instances"][0]["InstanceId"])
    worker = bed.fleet.start("--cloud", "aws", "--idle-minutes", "0.15", env=aws)
    until(lambda: group()["Instances"][0]["ProtectedFromScaleIn"] is False, "idle, it lets its protection go")
    assert worker.process.wait(60) == 0, worker.log
    assert group()["DesiredCapacity"] == 0
    assert group()["Instances"] == []


def cloud_environment(metadata, simulated_aws):
    return {
        "MST_METADATA_URL": metadata.url,
        "AWS_ENDPOINT_URL": simulated_aws,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }


@pytest.fixture(scope="module")
def simulated_aws():
    server = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


def test_cloudwatch_takes_the_signal(bed, tmp_path, simulated_aws):
    import boto3

    bed.ready(1)
    env = {"AWS_ENDPOINT_URL": simulated_aws, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    env["AWS_DEFAULT_REGION"] = "eu-central-1"
    said = mst(bed, "fleet", "scale", "--publish", "cloudwatch", "--pool", "p", home=tmp_path, env=env)
    assert said.code == 0, said.err
    client = boto3.client(
        *("cloudwatch", "eu-central-1"),
        endpoint_url=simulated_aws,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    found = {one["MetricName"]: one["Dimensions"] for one in client.list_metrics(Namespace="mst")["Metrics"]}
    assert set(found) == {
        "ShardsQueued", "ShardsRunning", "LeasesExpired", "OldestWaitSeconds", "Workers", "BacklogPerWorker"
    }  # fmt: skip
    assert all(one == [{"Name": "Pool", "Value": "p"}] for one in found.values())
    # and coordinators learn that this pool starts machines for the queue
    assert ScaleRules(bed.fleet.client).pools(GRADE_QUEUE) == ["p"]
    for key in bed.fleet.client.keys("mst:scalers:*"):
        assert 0 < bed.fleet.client.ttl(key) <= 300
        bed.fleet.client.delete(key)


def test_a_cloud_that_does_not_take_it_is_one_line(bed, tmp_path):
    bed.ready(1)
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    env |= {"AWS_DEFAULT_REGION": "eu-central-1", "AWS_MAX_ATTEMPTS": "1"}
    said = mst(bed, "fleet", "scale", "--publish", "cloudwatch", home=tmp_path, env=env)
    assert said.code == 4
    assert len(said.error_lines) == 1
    assert "CloudWatch did not take the scaling signal" in said.err


def test_a_workers_metrics_are_read_over_http(bed):
    bed.ready(0)
    from mst.testing.servers import free_ports

    (port,) = free_ports(1)
    bed.fleet.start("--metrics-port", str(port))
    assert bed.grade(shards=2).code in (0, 1)
    body = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    values = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
    assert values['mst_attempts_total{eval_name="quiz",how="committed",work="grade"}'] == "2.0"
    assert values.get('mst_units_total{eval_name="quiz",work="grade"}') == "18.0", (
        body
    )  # twelve trials, six comparisons
