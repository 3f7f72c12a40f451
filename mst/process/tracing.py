"""OpenTelemetry traces across coordinator, worker, shard worker and judge calls; nothing unless they are asked for.

They are on when OTEL_EXPORTER_OTLP_ENDPOINT (or ..._TRACES_ENDPOINT) is set, and need the extra `tracing`. Between
processes a trace travels as a W3C `traceparent` in a shard worker's environment. What belongs to one dispatch is one
trace, whoever sent it (a janitor's message carries nothing from its coordinator): its ID follows from the name.
Spans carry names and numbers: run, dispatch, shard, attempt, judge. Never a case's text, an answer or a secret.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mst.errors import UsageError

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
CARRIER = "TRACEPARENT"
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
FLUSH_MS = 3000

_provider: Any = None


def configure(service: str, environment: Mapping[str, str] | None = None) -> None:
    """For entry points: send spans of this process, if the environment asks for it. Safe to call twice.

    A parent that stands in TRACEPARENT is taken up. What is not sent yet goes out when the process ends, in three
    seconds at most; a collector that does not answer costs nothing else.

    Raises:
        UsageError: traces are asked for and the extra is missing.
    """
    environment = os.environ if environment is None else environment
    if _provider is not None or not any(environment.get(name) for name in ENDPOINTS):
        return
    try:
        exporter = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
        export = importlib.import_module("opentelemetry.sdk.trace.export")
    except ImportError as error:
        raise UsageError(f"{ENDPOINTS[1]} is set, but traces need an extra: pip install 'mst[tracing]'") from error
    use(service, export.BatchSpanProcessor(exporter, schedule_delay_millis=500), environment.get(CARRIER))
    atexit.register(flush)


def use(service: str, processor: Any, parent: str | None = None) -> None:
    """Send spans to a span processor of the SDK, under a parent."""
    global _provider  # noqa: PLW0603 - one per process, set once by its entry point
    sdk = importlib.import_module("opentelemetry.sdk.trace")
    resource = importlib.import_module("opentelemetry.sdk.resources").Resource({"service.name": service})
    _provider = sdk.TracerProvider(resource=resource)
    _provider.add_span_processor(processor)
    if parent is not None and TRACEPARENT.fullmatch(parent):
        importlib.import_module("opentelemetry.context").attach(_context_of(parent))


def stop() -> None:
    """Send what is left and be as if never configured; for tests."""
    global _provider  # noqa: PLW0603 - see `use`
    if _provider is not None:
        _provider.shutdown()
    _provider = None


def flush() -> None:
    """Send what is left, in three seconds at most."""
    if _provider is not None:
        _provider.force_flush(FLUSH_MS)


@contextmanager
def span(name: str, *, parent: str | None = None, **attributes: str | int) -> Iterator[None]:
    """Around a piece of work. An exception marks it as failed, by its type only: messages may hold what must not leave.

    Args:
        name: fixed, few.
        parent: a traceparent from another process; the current span otherwise.
        attributes: shown as `mst.<name>`.
    """
    if _provider is None:
        yield
        return
    given = {f"mst.{key}": value for key, value in attributes.items()}
    context = _context_of(parent) if parent is not None and TRACEPARENT.fullmatch(parent) else None
    tracer = _provider.get_tracer("mst")
    with tracer.start_as_current_span(
        name, context=context, attributes=given, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except BaseException as error:
            status = importlib.import_module("opentelemetry.trace")
            current.set_status(status.Status(status.StatusCode.ERROR, type(error).__name__))
            raise


def root_of(name: str) -> str:
    """The parent that everything of this name has in common, in any process: a span that nobody sends."""
    known = hashlib.sha256(name.encode()).hexdigest()
    return f"00-{known[:32]}-{known[32:48]}-01"


def traceparent() -> str | None:
    """The current span for another process; None without traces."""
    if _provider is None:
        return None
    carrier: dict[str, str] = {}
    _propagator().inject(carrier)
    return carrier.get("traceparent")


def carried() -> dict[str, str]:
    """Environment variables with which a child process goes on with this trace. Headers, which may hold keys, stay."""
    parent = traceparent()
    if parent is None:
        return {}
    return {CARRIER: parent} | {name: os.environ[name] for name in ENDPOINTS if os.environ.get(name)}


def _context_of(parent: str) -> Any:
    return _propagator().extract({"traceparent": parent})


def _propagator() -> Any:
    return importlib.import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
