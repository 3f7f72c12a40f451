"""One attempt at a shard on a worker: bundle, takeover, secrets, supervision, uploads, manifest."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import structlog

from mst import __version__
from mst.errors import (
    BrokerError,
    CorruptFile,
    DigestMismatch,
    ObjectMissing,
    RefusedError,
    StoreDenied,
    StoreError,
    StoreExpired,
)
from mst.fleet.adoption import Adoption, rank
from mst.fleet.confine import ShardBounds, confined, join
from mst.fleet.delivery import Delivery
from mst.fleet.grants import GrantTarget, OpenedGrant, open_grant
from mst.fleet.host import Host
from mst.fleet.kept import KeptUnits
from mst.fleet.lease import Lease
from mst.fleet.ledger_keys import unit_token
from mst.fleet.overuse import Overuse, cap_files
from mst.fleet.spend import entry_name
from mst.fleet.tokens import TokenKeeper
from mst.model.fleet import Envelope
from mst.model.manifest import ShardManifest
from mst.model.shard import Hello, UnitKey, UsageReport
from mst.process import tracing
from mst.process.removal import remove_tree
from mst.process.space import used_bytes
from mst.providers.rates import rates_of
from mst.sandboxes.cgroup import Group
from mst.shards.archive import unpack
from mst.shards.bundle import Bundle
from mst.shards.collecting import planned_trials
from mst.shards.container_channel import ContainerChannel
from mst.shards.contract import Channel, ShardSpec, UnitDone
from mst.shards.coordinate import bundled_units
from mst.shards.poison import write_poisoned
from mst.shards.process_channel import ProcessChannel
from mst.shards.spend import Budget
from mst.shards.supervisor import AttemptOutcome, Handlers, supervise
from mst.shards.turns import Turns
from mst.store.commit import commit_shard
from mst.store.layout import ShardKeys
from mst.store.uri import key_of

log = structlog.get_logger(__name__)

EXPIRED = "a credential expires, and no coordinator has renewed it"
How = Literal["committed", "lost", "failed", "cancelled", "given_back"]
GIVEN_BACK = {
    "exited": "crashed",
    "silent": "silence",
    "out_of_memory": "out_of_memory",
    "disk": "disk",
    "time": "time",
    "protocol": "protocol",
    "no_machine": "no_machine",
    "lost": "crashed",
    "store": "store",
    "cancelled": "drain",
}
"""The ledger's word for why a shard is given back, by the supervisor's reason."""


@dataclass(frozen=True)
class Ended:
    """How an attempt ended.

    Attributes:
        detail: why, in words.
        word: for `given_back`, the ledger's word for it.
        units: durable units of the shard.
    """

    how: How
    detail: str | None = None
    word: str = ""
    units: int = 0


class Attempt:
    """One attempt. `run` leaves no file behind, save units that the store did not take: see `KeptUnits`."""

    def __init__(self, host: Host, envelope: Envelope, keys: ShardKeys, attempt_id: str, poison: Sequence[str]) -> None:
        self._host = host
        self._envelope = envelope
        self._keys = keys
        self._id = attempt_id
        self._poison = frozenset(poison)
        self._hello: Hello | None = None
        self._bundle: Bundle | None = None
        self._opened: OpenedGrant | None = None
        self._values: dict[str, str] = {}
        self._fresh: list[Mapping[str, str]] = []
        self._began: dict[UnitKey, float] = {}
        self._kept = KeptUnits(host.scratch)
        self._is_held = False
        self._started_at = datetime.now(UTC)

    def run(self) -> Ended:
        """Work through the shard as far as it goes. Blocks for as long as that takes."""
        folder = Path(tempfile.mkdtemp(prefix=f"shard-{self._envelope.shard}-", dir=self._host.scratch))
        try:
            ended = self._try(folder)
            if (ended.how, ended.word) == ("given_back", "store"):
                self._kept.keep(self._envelope.ref, folder / "results")
            return ended
        finally:
            with suppress(OSError):
                remove_tree(folder)

    def _try(self, folder: Path) -> Ended:
        lease = Lease(
            self._host.ledger,
            self._envelope.ref,
            self._id,
            ttl_s=self._envelope.limits.lease_ttl_s,
            draining=self._host.draining,
            hurrying=self._host.hurrying,
            counts=self._host.counts,
        )
        try:
            with lease:
                # no answer is not a no
                with suppress(BrokerError):
                    self._host.ledger.start(self._envelope.ref, self._id)
                return self._run(folder, lease)
        except StoreExpired as error:
            return Ended("given_back", str(error), word="store")
        except (RefusedError, CorruptFile, DigestMismatch, ObjectMissing, StoreDenied) as error:
            return Ended("failed", str(error))
        except StoreError as error:
            return Ended("given_back", str(error), word="store")
        except OSError as error:
            return Ended("given_back", f"{self._host.name}: {error.strerror or error}", word="machine")

    def _run(self, folder: Path, lease: Lease) -> Ended:
        if self._host.spare is not None:
            self._host.spare.ready()
        spec = self._fetch_bundle(folder)
        values = self._open_secrets(spec.secrets)
        if self._has_expired():
            return Ended("given_back", EXPIRED, word="waiting_token")
        adoption = Adoption(self._host.store, self._keys, spec.planned, spec.digest, into=spec.results)
        self._write_poisoned(spec)
        delivery = Delivery(
            self._host.store,
            self._keys,
            self._host.ledger,
            self._envelope.ref,
            self._id,
            done=len(adoption.units),
            heed=lease.heed,
            ending=lease.cancel.is_set,
            leaving=lambda: lease.cancel.is_set() and lease.cancel.grace_s == 0,
        )
        if len(adoption.units) == len(spec.planned):
            return self._commit(spec, adoption, delivery)
        kept = self._kept.take(self._envelope.ref, spec, adoption.units)
        with delivery, self._tokens(lease):
            for done, paths in kept:
                delivery.take(done, paths)
            outcome = self._supervise(spec, folder, delivery, lease, values)
            if lease.why == "lost":
                delivery.abandon()
        if lease.why == "lost":
            return Ended("lost", lease.cancel.reason)
        if all(key in adoption.units or delivery.has_stored(key) for key in spec.planned):
            return self._commit(spec, adoption, delivery)
        return self._unfinished(outcome, delivery, lease)

    def _fetch_bundle(self, folder: Path) -> ShardSpec:
        envelope = self._envelope
        archive = folder / "bundle.tar.zst"
        found = self._host.store.get_to(key_of(self._host.store, envelope.bundle_uri), archive)
        if found.sha256 != envelope.bundle_sha256:
            raise DigestMismatch(f"the bundle's bytes are not those that the envelope names: {envelope.bundle_uri}")
        unpack(archive, folder / "bundle", self._host.caps)
        archive.unlink()
        bundle = self._bundle = Bundle(folder / "bundle")
        record = bundle.record
        if (record.run_id, record.shard, record.work) != (envelope.run_id, envelope.shard, envelope.work):
            raise RefusedError(f"{envelope.bundle_uri}: this is another shard's bundle")
        return ShardSpec(
            work=envelope.work,
            run_id=envelope.run_id,
            eval_name=envelope.eval_name,
            dispatch=envelope.dispatch,
            index=envelope.shard,
            count=envelope.count,
            bundle=folder / "bundle",
            digest=envelope.bundle_digest,
            planned=_planned(bundle),
            results=folder / "results",
            secrets=record.secrets,
        )

    def _open_secrets(self, names: Sequence[str]) -> Mapping[str, str]:
        if not names or self._envelope.grant_slot is None:
            return {}
        found = self._host.grants.newest(self._target, self._host.verifier)
        if found is None:
            raise RefusedError(f"no grant of secrets with a good signature is in {self._target.slot}")
        opened = open_grant(*found, self._host.fleet_key, now=datetime.now(UTC))
        self._opened = opened
        self._values = {name: opened.values[name] for name in names if name in opened.values}
        return self._values

    @property
    def _target(self) -> GrantTarget:
        envelope = self._envelope
        return GrantTarget(envelope.run_id, envelope.dispatch, envelope.work, envelope.eval_name)

    def _tokens(self, lease: Lease) -> AbstractContextManager[object]:
        """Keeps credentials fresh while the shard runs."""
        if self._opened is None or self._host.tokens is None:
            return nullcontext()
        return TokenKeeper(
            slots=self._host.tokens,
            target=self._target,
            shard=self._envelope.shard,
            attempt=self._id,
            verifier=self._host.verifier,
            opened=self._opened,
            fresh=self._renew,
            expired=lambda: lease.stop("waiting_token", EXPIRED, None),
        )

    def _renew(self, values: Mapping[str, str]) -> None:
        # a worker that asks for its values only now gets the new ones, too
        self._values.update((name, value) for name, value in values.items() if name in self._values)
        self._fresh.append(dict(self._values))

    def _has_expired(self) -> bool:
        expires = self._opened.expires.values() if self._opened is not None else ()
        return any(moment <= datetime.now(UTC) for moment in expires)

    def _write_poisoned(self, spec: ShardSpec) -> None:
        spec.results.mkdir(parents=True, exist_ok=True)
        poisoned = [key for key in spec.planned if unit_token(key) in self._poison]
        if poisoned:
            write_poisoned(spec.results, poisoned)

    def _supervise(
        self, spec: ShardSpec, folder: Path, delivery: Delivery, lease: Lease, values: Mapping[str, str]
    ) -> AttemptOutcome:
        bounds = self._host.bounds
        # a container's memory, processors and processes are its engine's business
        with confined(bounds if self._host.container is None else ShardBounds()) as group:
            channel = self._channel(group, folder)
            measure = channel.used_bytes if isinstance(channel, ContainerChannel) else partial(used_bytes, [folder])
            with Overuse(measure, disk_bytes=bounds.disk_bytes, time_s=bounds.time_s) as watch:
                outcome = self._supervise_in(channel, watch, spec, delivery, lease, values)
            over_memory = group is not None and group.reached().get("memory", 0) > 0
        if over_memory and not outcome.ok:
            return replace(outcome, reason="out_of_memory", detail="the shard used more memory than it may")
        return outcome

    def _supervise_in(
        self,
        channel: Channel,
        watch: Overuse,
        spec: ShardSpec,
        delivery: Delivery,
        lease: Lease,
        values: Mapping[str, str],
    ) -> AttemptOutcome:
        assert self._bundle is not None
        plan = self._bundle.record.plan
        handlers = Handlers(
            fresh=lambda: self._fresh.pop() if self._fresh else None,
            turns=Turns(
                self._host.limiter,
                rates_of(plan.rate_limits),
                spend=self._host.spend(spec.run_id),
                budget=Budget.of(plan.budget),
                attempt=entry_name(self._envelope.work, self._id),
                told=self._used,
                faults=self._host.faults(self._envelope.ref.scope),
            ),
            unit=lambda done, paths: self._take(delivery, done, paths),
            tokens=lambda names: {name: values[name] for name in names if name in values},
            started=lambda key: self._begin(delivery, key),
            hello=self._greet,
            hold=lambda: self._holds(delivery),
            overuse=watch.found,
        )
        try:
            return supervise(spec, channel, handlers, lease.cancel, attempt=self._id, silence_s=self._host.silence_s)
        finally:
            channel.close()

    def _channel(self, group: Group | None, folder: Path) -> Channel:
        environment = {"MST_MACHINE_ID": self._host.name, **tracing.carried()}
        machine, ref = self._host.container, self._envelope.ref
        if machine is not None:
            whole = replace(machine, environment={**machine.environment, **environment})
            return ContainerChannel(whole, name=f"mst-{str(ref).lower()}-{self._id}")
        temporary = folder / "tmp"
        temporary.mkdir(mode=0o700)
        environment["TMPDIR"] = str(temporary)
        return ProcessChannel(
            folder / "worker",
            started=partial(self._confine, group),
            waiting=self._host.spare.take if self._host.spare is not None else lambda: None,
            environment=environment,
        )

    def _holds(self, delivery: Delivery) -> bool:
        """Whether no unit should start now, since the store is behind. Said once in the log when that changes."""
        delivery.tell()
        if delivery.is_behind != self._is_held:
            self._is_held = not self._is_held
            log.warning("shard_held" if self._is_held else "shard_goes_on", attempt=self._id)
        return self._is_held

    def _confine(self, group: Group | None, pid: int) -> None:
        if group is not None:
            join(group, pid)
        if self._host.bounds.disk_bytes is not None:
            cap_files(pid, self._host.bounds.disk_bytes)

    def _begin(self, delivery: Delivery, key: UnitKey) -> None:
        self._began[key] = time.monotonic()
        delivery.started(key)

    def _take(self, delivery: Delivery, done: UnitDone, paths: Sequence[Path]) -> None:
        delivery.take(done, paths)
        seconds = time.monotonic() - self._began.pop(done.key, time.monotonic())
        self._host.counts.unit_done(work=self._envelope.work, eval_name=self._envelope.eval_name, seconds=seconds)

    def _used(self, report: UsageReport) -> None:
        self._host.counts.used(
            eval_name=self._envelope.eval_name, judge_calls=report.judge_calls or 0, cost_usd=report.cost_usd or 0.0
        )

    def _greet(self, hello: Hello) -> None:
        self._hello = hello

    def _commit(self, spec: ShardSpec, adoption: Adoption, delivery: Delivery) -> Ended:
        files, packs = adoption.listed(besides=delivery.paths)
        manifest = ShardManifest(
            eval_name=spec.eval_name,
            run_id=spec.run_id,
            dispatch=spec.dispatch,
            shard=spec.index,
            bundle_digest=spec.digest,
            author=self._id,
            attempts=sorted({self._id, *(one.attempt for one in adoption.units.values())}, key=rank),
            created_at=datetime.now(UTC),
            complete=True,
            counts={"units": len(spec.planned)},
            machine=self._machine(),
            versions={"mst": __version__},
            files=sorted([*files, *delivery.files], key=lambda file: file.path),
            packs=[*packs, *delivery.packs],
        )
        how = commit_shard(self._host.store, manifest)
        detail = "another attempt was first" if how == "fenced" else None
        return Ended("committed", detail, units=len(spec.planned))

    def _machine(self) -> dict[str, str]:
        found = {
            "id": self._host.name,
            "startedAt": self._started_at.isoformat(),
            "endedAt": datetime.now(UTC).isoformat(),
        }
        return found | ({"image": self._hello.image} if self._hello is not None and self._hello.image else {})

    def _unfinished(self, outcome: AttemptOutcome, delivery: Delivery, lease: Lease) -> Ended:
        if delivery.error is not None:
            if isinstance(delivery.error, StoreDenied) and not isinstance(delivery.error, StoreExpired):
                return Ended("failed", str(delivery.error))
            return Ended("given_back", str(delivery.error), word="store")
        if lease.why == "waiting_token":
            return Ended("given_back", EXPIRED, word="waiting_token")
        if lease.why == "cancelled":
            return Ended("cancelled", lease.cancel.reason)
        if outcome.reason == "budget":
            return Ended("cancelled", outcome.detail)
        if outcome.reason in ("refused", "version"):
            return Ended("failed", outcome.detail)
        word = GIVEN_BACK[outcome.reason] if outcome.reason is not None else "incomplete"
        return Ended("given_back", outcome.detail, word=word)


def _planned(bundle: Bundle) -> list[UnitKey]:
    """The units that the coordinator planned, by the same rule."""
    if bundle.record.work == "collect":
        return list(planned_trials(bundle))
    return bundled_units(bundle)
