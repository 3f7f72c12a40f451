"""One trace from the coordinator to a judge in a shard worker: three processes, and a collector that keeps it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mst.testing.commandline import ended, until
from mst.testing.fleet import Bed, fleet

proto = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="the extra tracing is not installed"
)

pytestmark = pytest.mark.server


@pytest.fixture
def collector():
    spans = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = proto.ExportTraceServiceRequest()
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                data = gzip.decompress(data)
            request.ParseFromString(data)
            for resource in request.resource_spans:
                service = next(
                    one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
                )
                spans.extend((service, span) for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", spans
    server.shutdown()
    server.server_close()


def test_coordinator_worker_and_judge_calls_are_one_trace_without_content(collector, tmp_path):
    url, spans = collector
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=canary-header"}
    with fleet(tmp_path / "fleet-home") as running:
        bed = Bed(running, tmp_path / "quiz")
        running.start(env=env)
        bed.quiz.forget()
        said = ended(bed.start(shards=1, env=env))
        assert said.code in (0, 1), said.err
        judged = len(bed.quiz.keys)
        running.workers["w1"].drain()
        names = until(
            lambda: sum(span.name == "mst.judge" for _, span in spans) >= judged and [span.name for _, span in spans],
            "all spans arrive",
        )
    assert names.count("mst.dispatch") == 1
    assert len({span.trace_id for _, span in spans}) == 1
    by_name = {span.name: (service, span) for service, span in spans}
    assert {name: service for name, (service, _) in by_name.items()} == {
        "mst.dispatch": "mst", "mst.shard": "mst-worker", "mst.judge": "mst-shard"
    }  # fmt: skip
    # the dispatch's name is the parent of whatever is done about it, whoever sent the message
    assert by_name["mst.shard"][1].parent_span_id == by_name["mst.dispatch"][1].parent_span_id
    shards = {span.span_id for _, span in spans if span.name == "mst.shard"}
    assert {span.parent_span_id for _, span in spans if span.name == "mst.judge"} <= shards
    shown = " ".join(str(span) for _, span in spans)
    assert "canary-header" not in shown
    for case in bed.quiz.ids:
        assert f'string_value: "{case}"' not in shown


def test_a_detached_grading_and_the_one_that_attaches_are_of_the_same_trace(collector, tmp_path):
    url, spans = collector
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url}
    with fleet(tmp_path / "fleet-home") as running:
        bed = Bed(running, tmp_path / "quiz")
        running.start(env=env)
        bed.quiz.forget()
        said = ended(bed.start("--detach", shards=1, env=env))
        assert said.code == 0, said.err
        said = bed.mst("attach", bed.newest().path, env=env)
        assert said.code in (0, 1), said.err
        until(lambda: {"mst.send", "mst.attach"} <= {span.name for _, span in spans}, "both coordinators are seen")
        until(lambda: any(span.name == "mst.judge" for _, span in spans), "judges are seen")
    assert len({span.trace_id for _, span in spans}) == 1
