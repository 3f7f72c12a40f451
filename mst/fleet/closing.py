"""Closing a dispatch: what is finished is kept, and nobody starts on the rest any more.

Each shard without a manifest gets one that lists the units that are in the store. It is the same object that a worker
would create, so whoever is first wins, and a straggler that comes later meets it and ends.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from mst import __version__
from mst.errors import ObjectMissing, PreconditionFailed
from mst.fleet.adoption import Adoption, rank
from mst.model.base import digest_bytes
from mst.model.fleet import Closed, ClosedShard, CloseReason
from mst.model.manifest import ShardManifest
from mst.shards.contract import ShardSpec
from mst.store.commit import commit_shard, read_shard
from mst.store.contract import Store
from mst.store.layout import DispatchKeys


def close_dispatch(
    store: Store, keys: DispatchKeys, shards: Sequence[ShardSpec], reason: CloseReason
) -> dict[int, ShardManifest]:
    """Close every shard, then write `closed.json`. Idempotent; two coordinators may do it at once.

    Returns:
        The manifest that counts, for each shard.
    """
    manifests = {spec.index: close_shard(store, keys, spec) for spec in shards}
    entries = [
        ClosedShard(
            shard=index,
            manifest_sha256=digest_bytes(store.get(keys.shard(index).manifest)),
            complete=manifest.complete,
            adopted=manifest.closed,
        )
        for index, manifest in sorted(manifests.items())
    ]
    first = shards[0]
    closed = Closed(
        run_id=first.run_id,
        dispatch=first.dispatch,
        work=first.work,
        reason=reason,
        closed_at=datetime.now(UTC),
        machine=socket.gethostname(),
        shards=entries,
    )
    # another coordinator may have closed it: its shards are the same objects
    with suppress(PreconditionFailed):
        store.put_if_absent(keys.closed, closed.to_json())
    return manifests


def close_shard(store: Store, keys: DispatchKeys, spec: ShardSpec) -> ShardManifest:
    """The shard's manifest; made from its finished units when no worker had made one."""
    shard = keys.shard(spec.index)
    found = read_shard(store, shard)
    if found is not None:
        return found
    adoption = Adoption(store, shard, spec.planned, spec.digest)
    files, packs = adoption.listed()
    manifest = ShardManifest(
        eval_name=spec.eval_name,
        run_id=spec.run_id,
        dispatch=spec.dispatch,
        shard=spec.index,
        bundle_digest=spec.digest,
        author=f"closed-{secrets.token_hex(8)}",
        attempts=sorted({one.attempt for one in adoption.units.values()}, key=rank),
        created_at=datetime.now(UTC),
        complete=False,
        closed=True,
        counts={"units": len(adoption.units)},
        versions={"mst": __version__},
        files=files,
        packs=packs,
    )
    commit_shard(store, manifest)
    counts = read_shard(store, shard)
    if counts is None:
        raise ObjectMissing(f"{store.uri}: {shard.manifest}: gone after it was created")
    return counts


def is_closed(store: Store, keys: DispatchKeys) -> bool:
    """Whether a dispatch was closed."""
    return store.head(keys.closed) is not None
