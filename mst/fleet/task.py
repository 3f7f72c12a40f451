"""The body of the one Celery task: from a message to a committed shard, or to one that somebody else can go on with.

    verify -> still open? -> room? -> acquire -> bundle -> units of earlier attempts -> secrets -> supervise -> manifest

Every step may happen twice, late or never. What is dropped here is sent again by a janitor when it still matters.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from mst import __version__
from mst.errors import BrokerError, InfrastructureError, MstError, RefusedError
from mst.fleet.adoption import attempts_in
from mst.fleet.attempt import Attempt, Ended
from mst.fleet.grants import GrantTarget
from mst.fleet.host import Host, send_shard
from mst.fleet.ledger_states import BACKS_OFF
from mst.fleet.sessions import SessionStore
from mst.fleet.signing import Refusal, check_places
from mst.model.fleet import Envelope, Message, Signed
from mst.process import tracing
from mst.store.commit import read_shard
from mst.store.layout import RunKeys, ShardKeys

log = structlog.get_logger(__name__)

Seen = Literal["committed", "closed", "open"]

ATTEMPTS_STORED_MAX = 100
"""Bounds replay where the ledger was lost. Above the limit of lost attempts: those given back leave units too."""


def handle(host: Host, raw: Mapping[str, Any]) -> None:
    """Handle one message. Never raises for what a message or a machine does: a task's traceback helps nobody."""
    message = None
    try:
        message = Message.model_validate(raw)
        envelope = host.verifier.envelope(message.envelope, queues=host.queues, now=datetime.now(UTC))
        check_places(envelope, host.store_uri)
        if envelope.mst != __version__:
            raise Refusal("version", f"the coordinator has mst {envelope.mst}, this worker has {__version__}")
    except (MstError, ValueError) as error:
        host.counts.message_refused()
        log.warning("message_refused", worker=host.name, reason=str(error)[:500])
        if message is not None and isinstance(error, Refusal):
            _tell(host, message, error)
        return
    bound: dict[str, str | int] = {
        "run_id": envelope.run_id,
        "dispatch": envelope.dispatch,
        "shard": envelope.shard,
        "worker": host.name,
    }
    with (
        structlog.contextvars.bound_contextvars(**bound),
        tracing.span("mst.shard", parent=tracing.root_of(envelope.ref.scope), work=envelope.work, **bound),
    ):
        try:
            _work(host, envelope, message.envelope, message.hint.attempt)
        except (MstError, OSError) as error:
            # the lease ends by itself, and a janitor sends the shard again
            log.warning("shard_left", reason=str(error)[:500])


def _tell(host: Host, message: Message, error: Refusal) -> None:
    """The coordinator should know at once, not at its deadline."""
    if host.refusals is not None:
        with suppress(BrokerError):
            host.refusals.note(message.envelope, worker=host.name, error=error)


def _work(host: Host, envelope: Envelope, signed: Signed, attempt: int) -> None:
    if envelope.store_session:
        host = _with_session(host, envelope)
    keys = shard_keys(envelope)
    seen = look(host, envelope, keys)
    if seen != "open":
        host.counts.message_dropped(seen)
        log.info("shard_over", seen=seen)
        return
    lack = host.room.lack()
    if lack is not None:
        log.info("shard_put_back", reason=lack)
        _put_back(host, envelope, signed, attempt)
        return
    outcome = host.ledger.acquire(envelope.ref, secrets.token_hex(8), worker=host.name)
    if outcome.answer != "granted":
        if outcome.why in ("past_limit", "deadline") and look(host, envelope, keys) == "open":
            host.ledger.give_up(envelope.ref)
        host.counts.message_dropped(outcome.why or outcome.answer)
        log.info("shard_not_granted", answer=outcome.answer, why=outcome.why)
        return
    log.info("shard_granted", attempt=outcome.attempt_id)
    host.counts.attempt_started()
    began = time.monotonic()
    ended = Ended("lost")
    try:
        if len(attempts_in(host.store, keys)) >= ATTEMPTS_STORED_MAX:
            ended = Ended("failed", f"{ATTEMPTS_STORED_MAX} attempts left something in the store, and none finished")
        else:
            ended = Attempt(host, envelope, keys, outcome.attempt_id, outcome.poison).run()
    finally:
        host.counts.attempt_ended(
            work=envelope.work, eval_name=envelope.eval_name, how=ended.how, seconds=time.monotonic() - began
        )
    log.info("attempt_ended", attempt=outcome.attempt_id, how=ended.how, detail=(ended.detail or "")[:500])
    settle(host, envelope, signed, outcome.attempt_id, ended)


def _with_session(host: Host, envelope: Envelope) -> Host:
    """The same means, with the store as the shard's own credentials reach it."""
    if host.store_with is None:
        raise RefusedError("this worker cannot use credentials of one shard for its store")
    target = GrantTarget(envelope.run_id, envelope.dispatch, envelope.work, envelope.eval_name, envelope.shard)
    store = SessionStore(host.grants, target, verifier=host.verifier, fleet_key=host.fleet_key, connect=host.store_with)
    return replace(host, store=store)


def shard_keys(envelope: Envelope) -> ShardKeys:
    """Where an envelope's shard lies in the store."""
    return RunKeys(envelope.eval_name, envelope.run_id).dispatch(envelope.dispatch).shard(envelope.shard)


def look(host: Host, envelope: Envelope, keys: ShardKeys) -> Seen:
    """What the store says of a shard, before anything is granted or opened: replay is bounded by it."""
    if read_shard(host.store, keys) is not None:
        host.ledger.mark_committed(envelope.ref, done=0)
        return "committed"
    if host.store.head(keys.dispatch.closed) is not None:
        return "closed"
    return "open"


def settle(host: Host, envelope: Envelope, signed: Signed, attempt_id: str, ended: Ended) -> None:
    """Tell the ledger how an attempt ended, and send the shard again when another attempt may help."""
    ref = envelope.ref
    match ended.how:
        case "committed":
            host.ledger.mark_committed(ref, done=ended.units)
        case "lost":
            return
        case "failed":
            host.ledger.finish(ref, attempt_id, "failed", _short(ended.detail))
        case "cancelled":
            host.ledger.finish(ref, attempt_id, "cancelled", _short(ended.detail))
        case "given_back":
            given = host.ledger.give_back(ref, attempt_id, ended.word)
            if given.answer == "yes" and ended.word not in BACKS_OFF | {"waiting_token"}:
                _put_back(host, envelope, signed, int(attempt_id.partition("-")[0]) + 1)


def _put_back(host: Host, envelope: Envelope, signed: Signed, attempt: int) -> None:
    try:
        send_shard(host.send, host.ledger, signed, envelope, attempt)
    except InfrastructureError as error:
        log.warning("shard_not_sent", reason=str(error)[:500])


def _short(detail: str | None) -> str:
    return (detail or "").splitlines()[0][:200] if detail else ""
