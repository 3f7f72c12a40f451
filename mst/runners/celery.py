"""The `celery` runner: each shard on a Celery worker, of a fleet or of one that is started for this command."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, Field

from mst import __version__
from mst.config.secrets import read_expiries
from mst.config.settings import Settings
from mst.errors import BrokerError, ObjectMissing, RunnerError, SecretMissing, UsageError
from mst.fleet.app import make_app
from mst.fleet.broker_check import check_broker
from mst.fleet.closing import close_dispatch, is_closed
from mst.fleet.connect import connect, without_password
from mst.fleet.dispatch import Desk, Sent, dispatch_keys, envelope_of, head_of, send_dispatch, target_of, write_again
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.embedded_fleet import FLEET_FOLDER, EmbeddedFleet, remove_left_dispatches
from mst.fleet.follow import Follower, outcome_of
from mst.fleet.grants import GrantSlots
from mst.fleet.handover import bring_bundles, read_record, recall_plans
from mst.fleet.host import Send, celery_sender, send_shard
from mst.fleet.janitor import Janitor
from mst.fleet.keys import load_recipients, load_signing_key
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_keys import DEFAULT_PREFIX
from mst.fleet.ledger_records import Head
from mst.fleet.ledger_states import HELD
from mst.fleet.logs import log_for_people
from mst.fleet.presence import Presence
from mst.fleet.queues import queue_name
from mst.fleet.refusals import RefusalBook, RefusalWatch, payload_digest
from mst.fleet.renewal import Renewer, credentials
from mst.fleet.scale_rules import ScaleRules
from mst.fleet.service import ServiceWatch
from mst.fleet.sessions import ShardSessions
from mst.fleet.spend import FleetSpend
from mst.fleet.tokens import TokenDesk, TokenSlots
from mst.fleet.wasted import with_wasted
from mst.model.base import Model
from mst.model.fleet import (
    DEFAULT_LEASE_TTL_S,
    EMBEDDED_LEASE_TTL_S,
    DispatchRecord,
    Envelope,
    ShardLimits,
    scope_name,
)
from mst.model.shard import Work
from mst.process import tracing
from mst.shards.contract import Cancel, RunnerContext, ShardEvents, ShardOutcome, ShardSpec
from mst.store.contract import Store
from mst.store.layout import RunKeys
from mst.store.session import shard_session
from mst.store.units import fetch_shard
from mst.store.uri import check_writable, for_record, object_uri, open_store, redacted

SERVED_WITHIN_S = 5.0
"""How long a command looks for a worker before it refuses to send."""
PACE = threading.Event()


class CeleryOptions(Model):
    """`--runner-option` of the celery runner."""

    model_config = ConfigDict(extra="forbid", alias_generator=None)

    shards: int = Field(default=2, ge=1, le=10_000)
    """How many shards the cases are split into."""
    broker: str | None = None
    """URL of the broker, without a password; `MST_BROKER_URL` otherwise. None at all: one is started here."""
    store: str | None = None
    """URI of the result store that coordinator and workers share; `MST_STORE` otherwise."""
    worker_class: str | None = Field(default=None, alias="class")
    """Only workers of this class."""
    image: str | None = None
    """Only workers that run this image, by its digest (`sha256:...`, as `mst images build` prints it)."""
    workers: int = Field(default=2, ge=1, le=64)
    """Worker processes of an embedded fleet."""
    wait: bool = False
    """Send even when no worker serves the queue yet."""
    deadline_h: float = Field(default=24.0, gt=0, le=24 * 30)
    """Hours until the dispatch ends, waiting included."""
    store_role: str | None = None
    """ARN of a role that the coordinator takes on for each shard; workers then need no rights of their own at an `s3:`
    store. `MST_STORE_ROLE` otherwise."""
    store_session_s: int = Field(default=3600, ge=900, le=43200)
    """Seconds that such a shard's credentials live; they are made again at half of it."""
    lease_ttl_s: float | None = Field(default=None, ge=0.2, le=3600)
    """How long a silent worker keeps a shard; 120, and 15 when embedded."""


class CeleryRunner:
    """See `mst.shards.contract.Runner`."""

    Options: ClassVar[type[Model]] = CeleryOptions
    max_shards: ClassVar[int | None] = 10_000
    work: ClassVar[frozenset[Work]] = frozenset({"collect", "grade"})
    reads_environment: ClassVar[bool] = False

    def __init__(self, options: CeleryOptions, context: RunnerContext, settings: Settings) -> None:
        log_for_people()
        self._options = options
        self._context = context
        self._fleet: EmbeddedFleet | None = None
        self._finished: list[ShardSpec] = []
        self._left = False
        self._queue = queue_name(
            context.work, mst_version=__version__, worker_class=options.worker_class, image=options.image
        )
        if settings.broker_url is None:
            settings = self._embed(settings)
        try:
            self._open(settings)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, options: CeleryOptions, context: RunnerContext) -> Self:
        """Connect to broker and store, or start them here.

        Raises:
            UsageError: a setting is missing.
            BrokerError, StoreError: unreachable or unfit.
        """
        given = Settings.from_environment(context.environment)
        settings = Settings(
            broker_url=_broker_url(options.broker, given.broker_url),
            store=options.store or given.store,
            signing_key_file=given.signing_key_file,
            fleet_key_file=given.fleet_key_file,
            trusted_signers_file=given.trusted_signers_file,
        )
        return cls(options, context, settings)

    def _embed(self, settings: Settings) -> Settings:
        if self._options.image is not None:
            raise UsageError(
                "--runner-option image: no broker is set, so the shards would run on this machine and in no image; set "
                "MST_BROKER_URL and MST_STORE to those of a fleet"
            )
        folder = self._context.results_root / FLEET_FOLDER
        store = settings.store or f"file:{folder.resolve()}"
        check_writable(open_store(store, patience_s=5), "check")
        self._fleet = EmbeddedFleet(
            store_uri=store,
            workers=self._options.workers,
            queue=self._queue,
            logs=folder / "logs",
            say=self._context.say,
        )
        return Settings.from_environment(self._fleet.environ())

    def _open(self, settings: Settings) -> None:
        if settings.broker_url is None or settings.store is None:
            raise UsageError(
                "a broker is set but no store: coordinator and workers need one that both reach; set MST_STORE, "
                "or --runner-option store=s3://BUCKET/PREFIX"
            )
        if settings.signing_key_file is None:
            raise UsageError("MST_SIGNING_KEY_FILE is not set: workers accept signed work only ('mst fleet keygen')")
        if self._fleet is None:
            check_broker(settings.broker_url)
        self._key = load_signing_key(settings.signing_key_file)
        self._recipients = load_recipients(settings.signing_key_file.with_name("fleet.pub"))
        self._client = connect(settings.broker_url)
        self._broker = without_password(settings.broker_url)
        self._store_uri = settings.store
        self._sessions = self._open_sessions(settings.store)
        self._store: Store = open_store(settings.store)
        check_writable(self._store, "check")
        self._book = DispatchBook(self._client)
        self._ledger = Ledger(self._client)
        self._presence = Presence(self._client)
        self._grants = GrantSlots(self._client, DEFAULT_PREFIX)
        self._send: Send = celery_sender(make_app(settings.broker_url))

    def _open_sessions(self, store_uri: str) -> ShardSessions | None:
        environ = self._context.environment
        role = self._options.store_role or environ.get("MST_STORE_ROLE")
        is_asked_for = self._options.store_role is not None
        if not role or not (is_asked_for or store_uri.startswith("s3:")):
            return None
        if not store_uri.startswith("s3:"):
            raise UsageError(f"{redacted(store_uri)}: store_role is for s3: stores")
        duration_s = self._options.store_session_s
        return ShardSessions(
            make=lambda keys: shard_session(store_uri, keys, role_arn=role, duration_s=duration_s, environ=environ),
            life=timedelta(seconds=duration_s),
            grants=GrantSlots(self._client, DEFAULT_PREFIX),
            key=self._key,
            recipients=self._recipients,
        )

    def run(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> Sequence[ShardOutcome]:
        """See `Runner.run`. Refuses at once when nobody serves the queue."""
        with _traced("mst.dispatch", shards):
            return self._follow(self._dispatch(shards, events), shards, events, cancel)

    def send(self, shards: Sequence[ShardSpec], events: ShardEvents, *, before: Callable[[], None]) -> None:
        """Send out one dispatch and leave it: `follow` goes on with it, from any process.

        Args:
            shards: of the dispatch.
            events: told what there is to say.
            before: called when nothing that can be known stands against it, right before anything is sent.

        Raises:
            UsageError, RunnerError: nothing was sent out.
        """
        with _traced("mst.send", shards):
            self._dispatch(shards, events, before)

    def _dispatch(
        self, shards: Sequence[ShardSpec], events: ShardEvents, before: Callable[[], None] = lambda: None
    ) -> Sent:
        try:
            is_served = self._options.wait or self._is_served(events)
        except BrokerError as error:
            raise RunnerError(f"nothing was sent: {error}") from error
        if not is_served:
            raise UsageError(
                f"no worker serves the queue {self._queue}: {self._what_to_start(__version__)}, "
                "or wait for one with --runner-option wait=true"
            )
        secrets = self._secrets(shards, events)
        before()
        try:
            return send_dispatch(self._desk(), shards, secrets)
        except BaseException:
            self._left = True
            raise

    def _what_to_start(self, mst_version: str) -> str:
        options = self._options
        of_class = f" --class {options.worker_class}" if options.worker_class else ""
        version = "this version" if mst_version == __version__ else "the version that sent this"
        of_image = f" in the image {options.image}, with MST_IMAGE_DIGEST set to that" if options.image else ""
        return f"start one with 'mst worker{of_class}' of {version} ({mst_version}){of_image}"

    def _is_served(self, events: ShardEvents) -> bool:
        """Whether a worker serves the queue. A broker that was wiped hears of its workers again within moments."""
        until = time.monotonic() + SERVED_WITHIN_S
        while not self._presence.workers(self._queue):
            pools = ScaleRules(self._client).pools(self._queue)
            if pools:
                events.note(f"no worker serves the queue {self._queue} now; the pool {pools[0]} starts one for it")
                return True
            if time.monotonic() >= until:
                return False
            events.note(f"no worker says yet that it serves the queue {self._queue}; looking for {SERVED_WITHIN_S:g} s")
            PACE.wait(0.5)
        return True

    def _secrets(self, shards: Sequence[ShardSpec], events: ShardEvents) -> Mapping[str, str]:
        names = sorted({name for spec in shards for name in spec.secrets})
        values = events.tokens(shards[0].index, names) if names else {}
        missing = [name for name in names if name not in values]
        if missing:
            raise SecretMissing(
                f"the secrets {', '.join(missing)} must be sealed for the workers: "
                f"go on with 'mst attach {shards[0].run_id} --secrets-file FILE'"
            )
        return values

    def _renewing(self, sent: Sent) -> Callable[[Sequence[int]], None]:
        """How expiring credentials of a dispatch are renewed from the secrets file."""
        path = self._context.secrets_file
        if path is None or not sent.record.secrets:
            return lambda _waiting: None
        renewer = Renewer(
            desk=TokenDesk(
                slots=TokenSlots(self._client),
                target=sent.target,
                key=self._key,
                forget_at=sent.record.deadline,
                read=lambda: credentials(path, sent.record.secrets),
            ),
            book=self._book,
            ledger=self._ledger,
            grants=self._grants,
            head=sent.head,
            recipients=self._recipients,
            send=self._send,
        )
        return renewer.tend

    def _tending(self, sent: Sent, events: ShardEvents) -> Callable[[Sequence[int]], None]:
        """What is done now and then while a dispatch is followed: telling what it cost so far, renewing credentials."""
        renew, spend = self._renewing(sent), FleetSpend(self._client, sent.head.run_id)
        sessions = self._sessions if sent.record.store_sessions else None
        numbers = [plan.shard for plan in sent.record.shards]

        def tend(waiting: Sequence[int]) -> None:
            _, usd = spend.spent()
            events.cost(usd)
            if sessions is not None:
                sessions.tend(sent.target, sent.keys, numbers)
            renew(waiting)

        return tend

    def _desk(self) -> Desk:
        ttl_s = self._options.lease_ttl_s
        if ttl_s is None:
            ttl_s = EMBEDDED_LEASE_TTL_S if self._fleet is not None else DEFAULT_LEASE_TTL_S
        return Desk(
            store=self._store,
            book=self._book,
            ledger=self._ledger,
            grants=self._grants,
            send=self._send,
            key=self._key,
            recipients=self._recipients,
            broker=self._broker,
            embedded=self._fleet is not None,
            queue=self._queue,
            limits=ShardLimits(lease_ttl_s=ttl_s),
            deadline=timedelta(hours=self._options.deadline_h),
            expires=read_expiries(self._context.secrets_file) if self._context.secrets_file is not None else {},
            spend=lambda run_id: FleetSpend(self._client, run_id),
            sessions=self._sessions,
        )

    def _follow(
        self, sent: Sent, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel, *, sent_before: bool = False
    ) -> Sequence[ShardOutcome]:
        janitor = Janitor(
            owner=f"coordinator-{sent.record.scope}",
            book=self._book,
            ledger=self._ledger,
            presence=self._presence,
            store=self._store,
            send=self._send,
            every_s=min(10.0, sent.head.limits.lease_ttl_s / 8),
            settle_s=sent.head.limits.lease_ttl_s,
        )
        if self._fleet is not None:
            self._fleet.when_worker_dies(lambda name: self._give_back_leases(sent, name))
        follower = Follower(
            store=self._store,
            book=self._book,
            grants=self._grants,
            keys=sent.keys,
            head=sent.head,
            target=sent.target,
            shards=shards,
            events=events,
            cancel=cancel,
            write_again=lambda: write_again(self._desk(), sent.record, shards, self._secrets(shards, events)),
            tend=self._tending(sent, events),
            refused=self._refusals(sent, events, sent_before=sent_before).look,
            waited=self._service(sent, events).look,
        )
        janitor.start()
        try:
            outcomes = follower.follow()
        except BaseException:
            self._left = True
            raise
        finally:
            janitor.stop()
        if self._sessions is not None:
            # they expire by themselves, should the broker not answer
            with suppress(BrokerError):
                self._sessions.drop(sent.target, [spec.index for spec in shards])
        self._finished.extend(shards)
        return with_wasted(outcomes, shards, FleetSpend(self._client, sent.head.run_id))

    def _refusals(self, sent: Sent, events: ShardEvents, *, sent_before: bool) -> RefusalWatch:
        """Tells when no worker takes what was sent."""
        plans = {plan.shard: plan for plan in sent.record.shards}

        def digest_of(shard: int) -> str | None:
            plan = plans.get(shard)
            return None if plan is None else payload_digest(envelope_of(self._store, sent.keys, sent.record, plan))

        return RefusalWatch(
            book=RefusalBook(self._client),
            scope=sent.head.scope,
            digest_of=digest_of,
            workers=lambda: self._presence.workers(sent.head.queue),
            send_again=lambda shard: self._send_again(sent, shard, 1),
            say=events.note,
            queue=sent.head.queue,
            old=sent_before,
        )

    def _service(self, sent: Sent, events: ShardEvents) -> ServiceWatch:
        """Tells when shards wait and nobody takes any."""
        return ServiceWatch(
            queue=sent.head.queue,
            workers=lambda: self._presence.workers(sent.head.queue),
            resting=self._presence.resting,
            pools=lambda: ScaleRules(self._client).pools(sent.head.queue),
            start=self._what_to_start(sent.record.mst),
            say=events.note,
        )

    def _send_again(self, sent: Sent, shard: int, attempt: int) -> None:
        ref = sent.head.ref(shard)
        signed = self._book.envelope(ref)
        if signed is not None:
            send_shard(self._send, self._ledger, signed, Envelope.model_validate(signed.payload), attempt)

    def _give_back_leases(self, sent: Sent, worker: str) -> None:
        """Send a dead embedded worker's shards again at once, without waiting for their leases to end."""
        for shard, entry in self._book.entries(sent.head):
            if entry.worker != worker or entry.state not in HELD:
                continue
            if self._ledger.expire(sent.head.ref(shard), entry.attempt_id, died=True).answer == "queued":
                self._send_again(sent, shard, entry.n + 1)

    def follow(self, shards: Sequence[ShardSpec], events: ShardEvents, cancel: Cancel) -> Sequence[ShardOutcome] | None:
        """See `Runner.follow`: possible while its broker runs, or when its shards were all finished."""
        keys = dispatch_keys(shards[0])
        found = self._find(shards)
        if found is None:
            return None
        store, record = found
        if is_closed(store, keys):
            outcomes = self._closed(store, shards)
            return outcomes if all(outcome.ok for outcome in outcomes) else None
        head = head_of(record, object_uri(store, keys.folder))
        if record.embedded or not self._is_its_broker(record, head):
            return None
        with _traced("mst.attach", shards):
            return self._follow(Sent(record, head, keys, target_of(record)), shards, events, cancel, sent_before=True)

    def _is_its_broker(self, record: DispatchRecord, head: Head) -> bool:
        """Whether a dispatch was sent through this broker: by its address, which may be new, or by what it knows."""
        return record.broker == self._broker or self._book.head(head.scope) is not None

    def _closed(self, store: Store, shards: Sequence[ShardSpec]) -> list[ShardOutcome]:
        manifests = close_dispatch(store, dispatch_keys(shards[0]), shards, "done")
        for spec in shards:
            # what could not be had is missing from the outcome
            fetch_shard(store, manifests[spec.index], spec.results)
        self._finished.extend(shards)
        return [outcome_of(spec, manifests[spec.index], ("lost", "its dispatch was closed")) for spec in shards]

    def _find(self, shards: Sequence[ShardSpec]) -> tuple[Store, DispatchRecord] | None:
        """A dispatch, and the store that has it: this one, or that of an embedded fleet which began the run here."""
        keys = dispatch_keys(shards[0])
        stores = [self._store]
        own = self._context.results_root / FLEET_FOLDER
        if own.is_dir():
            stores.append(open_store(f"file:{own.resolve()}"))
        for store in stores:
            with suppress(ObjectMissing):
                return store, read_record(store, keys)
        return None

    def recover(self, shards: Sequence[ShardSpec]) -> None:
        """See `Runner.recover`: close the dispatch, adopting what is finished."""
        found = self._find(shards)
        if found is None:
            return
        store, record = found
        keys = dispatch_keys(shards[0])
        if not is_closed(store, keys) and not record.embedded:
            self._stop_workers(record, object_uri(store, keys.folder))
        manifests = close_dispatch(store, keys, shards, "resumed")
        for spec in shards:
            # what could not be had is graded again
            fetch_shard(store, manifests[spec.index], spec.results)
        self._finished.extend(shards)

    def _stop_workers(self, record: DispatchRecord, uri: str) -> None:
        head = head_of(record, uri)
        # a broker that is gone has no worker to stop; whoever still runs meets the manifests
        with suppress(BrokerError):
            self._book.cancel(head, "resumed by another coordinator")
            self._book.close_dispatch(head.scope)

    def recall(self, work: Path) -> None:
        """See `Runner.recall`."""
        recall_plans(self._store, RunKeys(self._context.eval_name, self._context.run_id), work)

    def bring_bundles(self, shards: Sequence[ShardSpec]) -> None:
        """See `Runner.bring_bundles`."""
        found = self._find(shards)
        if found is not None:
            store, record = found
            bring_bundles(store, dispatch_keys(shards[0]), record, shards)

    def recorded_options(self) -> dict[str, Any]:
        """See `Runner.recorded_options`. Broker and store of a fleet are said, so that `attach` finds its way back."""
        recorded = self._options.model_dump(exclude_defaults=True, by_alias=True) | {"shards": self._options.shards}
        if self._fleet is None:
            recorded |= {"broker": self._broker, "store": for_record(self._store_uri)}
        return recorded

    def close(self) -> None:
        """Stop an embedded fleet and remove its dispatches of this run; disconnect. Safe to call twice."""
        if self._fleet is not None:
            self._fleet.stop(at_once=self._left)
            self._remove_dispatches()
            self._fleet = None
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def _remove_dispatches(self) -> None:
        """An embedded fleet's dispatches are of no use once their results are in the run folder."""
        uri = self._store.uri if hasattr(self, "_store") else ""
        if uri.startswith("file:"):
            for folder in {dispatch_keys(spec).run.dispatches for spec in self._finished}:
                shutil.rmtree(Path(uri.removeprefix("file:")) / folder, ignore_errors=True)
        remove_left_dispatches(self._context.results_root)


def _broker_url(option: str | None, environment: str | None) -> str | None:
    """The option's broker, with the environment's password when both name the same place."""
    if option is not None and environment is not None and without_password(environment) == option:
        return environment
    return option or environment


def _traced(name: str, shards: Sequence[ShardSpec]) -> AbstractContextManager[None]:
    """A span of the dispatch's one trace, whichever coordinator works on it."""
    tracing.configure("mst")
    first = shards[0]
    root = tracing.root_of(scope_name(first.run_id, first.dispatch, first.work))
    return tracing.span(name, parent=root, run_id=first.run_id, work=first.work, shards=len(shards))
