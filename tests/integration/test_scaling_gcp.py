"""Google Cloud's parts against servers that speak its protocols: Cloud Monitoring, metadata, managed groups."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mst.errors import InfrastructureError, UsageError
from mst.fleet.machine import GcpMachine
from mst.fleet.publish import CloudMonitoring
from mst.fleet.scale import Signal
from mst.testing.commandline import ended, until
from mst.testing.fleet import Bed, fleet

pytestmark = pytest.mark.server
GROUP = "projects/7/zones/europe-west3-b/instanceGroupManagers/g"
ZONE = "projects/7/zones/europe-west3-b"


class Google:
    """Plays an instance's metadata server and the Compute API behind it."""

    def __init__(self):
        self.values = {
            "instance/id": "1234",
            "instance/name": "w-1",
            "instance/zone": ZONE,
            "instance/preempted": "FALSE",
            "instance/maintenance-event": "NONE",
            "instance/attributes/created-by": GROUP,
            "instance/service-accounts/default/token": json.dumps({"access_token": "a-token"}),
        }
        self.ended = []
        self.takes = True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                known = outer.values.get(self.path.removeprefix("/computeMetadata/v1/"))
                self.answer(
                    403 if self.headers.get("Metadata-Flavor") != "Google" else 404 if known is None else 200, known
                )

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.ended.append((self.path, self.headers["Authorization"], body))
                self.answer(200 if outer.takes else 403, "{}")

            def answer(self, status, text):
                self.send_response(status)
                self.end_headers()
                if text is not None:
                    self.wfile.write(text.encode())

            def log_message(self, *_arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def google():
    served = Google()
    yield served
    served.stop()


def machine(google):
    return GcpMachine(metadata=google.url, api=f"{google.url}/compute/v1")


def test_notices_are_a_preemption_and_a_maintenance_that_ends_it(google):
    here = machine(google)
    assert here.notice() == "none"
    google.values["instance/maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"
    assert here.notice() == "rebalance"
    google.values["instance/preempted"] = "TRUE"
    assert here.notice() == "stop"


def test_a_machine_ends_itself_through_its_group(google):
    here = machine(google)
    here.protect(True)
    here.end()
    assert google.ended == [
        (f"/compute/v1/{GROUP}/deleteInstances", "Bearer a-token", {"instances": [f"{ZONE}/instances/w-1"]})
    ]


def test_what_keeps_it_from_ending_is_said(google):
    here = machine(google)
    google.takes = False
    with pytest.raises(InfrastructureError, match="service account"):
        here.end()
    del google.values["instance/attributes/created-by"]
    with pytest.raises(InfrastructureError, match="no managed group"):
        here.end()
    del google.values["instance/id"]
    with pytest.raises(UsageError, match="--cloud gcp"):
        machine(google)


@pytest.fixture
def monitoring():
    """Cloud Monitoring's gRPC service, as far as time series are written; yields a client of Google's and what came."""
    grpc = pytest.importorskip("grpc", reason="pip install 'mst[gcp]'")
    library = pytest.importorskip("google.cloud.monitoring_v3", reason="pip install 'mst[gcp]'")
    transports = pytest.importorskip("google.cloud.monitoring_v3.services.metric_service.transports")
    empty = pytest.importorskip("google.protobuf.empty_pb2")
    came, refuse = [], []

    def create(request, context):
        if refuse:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, refuse[0])
        came.append(request)
        return empty.Empty()

    method = grpc.unary_unary_rpc_method_handler(
        create,
        request_deserializer=library.CreateTimeSeriesRequest.deserialize,
        response_serializer=empty.Empty.SerializeToString,
    )
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("google.monitoring.v3.MetricService", {"CreateTimeSeries": method})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    client = library.MetricServiceClient(transport=transports.MetricServiceGrpcTransport(channel=channel))
    yield client, came, refuse
    channel.close()
    server.stop(None).wait()


def test_cloud_monitoring_takes_the_signal(monitoring):
    client, came, _ = monitoring
    publisher = CloudMonitoring("pool-a", "my-project", client=client)
    publisher.publish(Signal(queued=3, running=2, workers=2, oldest_wait_s=9.5))
    (request,) = came
    assert request.name == "projects/my-project"
    values = {one.metric.type.rpartition("/")[2]: one.points[0].value.double_value for one in request.time_series}
    assert values["shards_queued"] == 3
    assert values["backlog_shards"] == 5
    assert values["backlog_per_worker"] == 2.5
    assert values["oldest_wait_seconds"] == 9.5
    assert {one.metric.type.rpartition("/")[0] for one in request.time_series} == {"custom.googleapis.com/mst"}
    assert {one.metric.labels["pool"] for one in request.time_series} == {"pool-a"}


def test_what_cloud_monitoring_refuses_is_one_line(monitoring):
    client, _, refuse = monitoring
    refuse.append("no right to write metrics")
    with pytest.raises(InfrastructureError, match=r"did not take.*no right to write metrics") as caught:
        CloudMonitoring("p", "my-project", client=client).publish(Signal())
    assert "\n" not in str(caught.value)


def test_a_preempted_machine_gives_its_shard_back_and_another_one_finishes_it(google, tmp_path_factory):
    with fleet(tmp_path_factory.mktemp("fleet")) as running:
        bed = Bed(running, tmp_path_factory.mktemp("quiz"))
        bed.ready(0)
        worker = bed.fleet.start("--cloud", "gcp", env={"MST_METADATA_URL": google.url})
        bed.quiz.ask("hold")
        grading = bed.start(shards=1)
        until(lambda: bed.quiz.lines("held"), "the shard runs on the cloud worker")
        bed.fleet.start()
        google.values["instance/preempted"] = "TRUE"
        until(lambda: '"step": "drain"' in worker.log, "it sees the notice")
        bed.quiz.let_go("hold")
        assert worker.process.wait(90) == 0, worker.log
        said = ended(grading)
        assert said.code in (0, 1), said.err
        assert set(bed.quiz.calls().values()) == {1}
