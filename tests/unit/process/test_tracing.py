"""Traces are off unless asked for, carry a parent between processes, and keep messages of errors to themselves."""

import pytest

from mst.errors import UsageError
from mst.process import tracing

sdk = pytest.importorskip("opentelemetry.sdk.trace.export", reason="the extra tracing is not installed")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture
def spans():
    exporter = memory.InMemorySpanExporter()
    tracing.use("test", sdk.SimpleSpanProcessor(exporter))
    yield exporter.get_finished_spans
    tracing.stop()


def test_off_they_cost_nothing_and_carry_nothing():
    with tracing.span("mst.shard", run_id="r"):
        assert tracing.traceparent() is None
        assert tracing.carried() == {}


def test_without_an_endpoint_nothing_is_configured():
    tracing.configure("mst", {})
    assert tracing.traceparent() is None


def test_a_span_goes_on_under_the_parent_of_another_process(spans):
    with tracing.span("mst.shard", parent=PARENT, shard=3):
        assert tracing.traceparent().startswith(f"00-{'a' * 32}-")
    (span,) = spans()
    assert span.parent.span_id == int("b" * 16, 16)
    assert span.attributes == {"mst.shard": 3}


@pytest.mark.parametrize("wrong", ["", "00-zz", PARENT + "x", "a" * 300])
def test_a_parent_that_is_none_begins_a_new_trace(spans, wrong):
    with tracing.span("mst.shard", parent=wrong):
        pass
    assert spans()[0].parent is None


def test_an_error_is_named_by_its_type_only(spans):
    with pytest.raises(UsageError), tracing.span("mst.judge"):
        raise UsageError("the key hunter2 was refused")
    (span,) = spans()
    assert span.status.description == "UsageError"
    assert span.events == ()
    assert "hunter2" not in span.to_json()


def test_headers_are_not_carried_to_a_child(spans, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
    with tracing.span("mst.shard"):
        found = tracing.carried()
    assert set(found) == {"TRACEPARENT", "OTEL_EXPORTER_OTLP_ENDPOINT"}


def test_one_name_has_one_root_in_every_process(spans):
    with tracing.span("mst.dispatch", parent=tracing.root_of("run.d1.grade")):
        pass
    with tracing.span("mst.shard", parent=tracing.root_of("run.d1.grade")):
        pass
    first, second = spans()
    assert first.context.trace_id == second.context.trace_id
    assert tracing.root_of("run.d1.grade") != tracing.root_of("run.d2.grade")
