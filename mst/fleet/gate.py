"""What a worker takes from its queues: messages as a coordinator sends them. All else is dropped before Celery sees it.

Celery ends a worker on many a malformed message, after it put that back for the next worker: one of them would end a
fleet. So what was taken is looked at first. A dropped message is gone; where it damaged a true one, a janitor sends
that again.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import structlog
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from mst.fleet.extras import need
from mst.model.base import first_fault

log = structlog.get_logger(__name__)

TASK_NAME = "mst.shard"
BODY_MAX_BYTES = 64 * 1024
"""An envelope has 4 KiB at most."""

REFUSED_S = 1.0
"""Before a broker that refused is asked again."""
_PACE = threading.Event()
Text = Annotated[str, Field(max_length=1000)]
OnRefused = Callable[[], None]
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What reading something of another shape raises."""


class _Headers(BaseModel):
    task: Literal["mst.shard"]
    id: Text
    lang: Text | None = None
    shadow: Text | None = None
    argsrepr: Text | None = None
    kwargsrepr: Text | None = None
    origin: Text | None = None
    root_id: Text | None = None
    parent_id: Text | None = None
    # a time of its own, a place in a canvas, a packing: nothing that is ours has one
    eta: None = None
    expires: None = None
    timelimit: tuple[None, None] | None = None
    retries: Literal[0] = 0
    group: None = None
    group_index: None = None
    ignore_result: bool | None = None
    replaced_task_nesting: Literal[0] = 0
    stamped_headers: Annotated[list[Text], Field(max_length=0)] | None = None
    stamps: Annotated[dict[str, Any], Field(max_length=0)] | None = None
    compression: None = None


class _Place(BaseModel):
    exchange: Text
    routing_key: Text


class _Properties(BaseModel):
    delivery_tag: Text
    delivery_info: _Place
    body_encoding: Literal["base64"]
    correlation_id: Text | None = None
    reply_to: Text | None = None


class _Canvas(BaseModel):
    callbacks: None = None
    errbacks: None = None
    chain: None = None
    chord: None = None


def _read_body(body: object) -> object:
    if not isinstance(body, str) or len(body) > BODY_MAX_BYTES:
        raise ValueError(f"not a text of at most {BODY_MAX_BYTES} bytes")
    try:
        # as Celery will read it: what looks like a date there has to be one
        return need("kombu.utils.json").loads(base64.b64decode(body, validate=True).decode())
    except UNREADABLE as error:
        raise ValueError("not JSON in base64") from error


class _Message(BaseModel):
    content_type: Literal["application/json"] = Field(alias="content-type")
    content_encoding: Literal["utf-8"] = Field(alias="content-encoding")
    headers: _Headers
    properties: _Properties
    body: Annotated[
        tuple[tuple[dict[str, Any]], Annotated[dict[str, Any], Field(max_length=0)], _Canvas],
        BeforeValidator(_read_body),
    ]


def fault_of(message: object) -> str | None:
    """Why a message on a queue is none of ours; None when it is. Quotes nothing: whoever wrote it may be anybody."""
    try:
        _Message.model_validate(message)
    except ValidationError as error:
        return first_fault(error)
    return None


def gated(amqp: Any, refused: OnRefused) -> Any:
    """Celery's `AMQP`, as a class whose connections take only such messages.

    Args:
        amqp: `celery.app.amqp.AMQP`.
        refused: told of each that is dropped.
    """

    def refuse(reason: str) -> None:
        refused()
        log.warning("message_refused", reason=reason)

    transport = _transport(refuse)

    class Connection(need("kombu").Connection):  # type: ignore[misc]  # the libraries are untyped
        """A connection to any Redis."""

        def get_transport_cls(self) -> Any:
            return transport

    class Gated(amqp):  # type: ignore[misc]
        """See `celery.app.amqp.AMQP`."""

    Gated.Connection = Connection
    return Gated


def _transport(refuse: Callable[[str], None]) -> Any:
    redis = need("kombu.transport.redis")
    refusal = need("redis").ResponseError

    class Unacknowledged(redis.QoS):  # type: ignore[misc, name-defined]  # the libraries are untyped
        """What was taken and not yet acknowledged."""

        def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
            try:
                super().restore_by_tag(tag, client=client, leftmost=leftmost)
            except UNREADABLE:
                refuse("what waits for its acknowledgement cannot be read")
                self._remove_from_indices(tag).execute()

    class Gate(redis.Channel):  # type: ignore[misc, name-defined]
        """Takes messages from Redis."""

        QoS = Unacknowledged

        def _brpop_read(self, **options: Any) -> Any:
            self.connection.is_handed_on = False
            try:
                return super()._brpop_read(**options)
            except refusal:
                _PACE.wait(REFUSED_S)
                raise
            except UNREADABLE:
                if self.connection.is_handed_on:
                    raise
                refuse("it is not JSON")
                return True

    class Transport(redis.Transport):  # type: ignore[misc, name-defined]
        """Hands messages on."""

        Channel = Gate
        is_handed_on = False
        # a broker that is full, read-only, or holds something else under a queue's name: Celery would end its worker
        # over that, with the shards that it has; so it connects again, until the broker has come to its senses
        connection_errors = (*redis.Transport.connection_errors, refusal)

        def _deliver(self, message: Mapping[str, Any], queue: str) -> None:
            self.is_handed_on = True
            fault = fault_of(message)
            if fault is None:
                super()._deliver(message, queue)
            else:
                refuse(fault)

    return Transport
