"""Shared by the fleet's unit tests."""

from datetime import UTC, datetime, timedelta

import pytest

from mst.errors import BrokerError
from mst.fleet.keys import FleetKey, SigningKey
from mst.fleet.ledger_states import Reply
from mst.model.fleet import Envelope, ShardLimits, TrustedSigners


class ToldLedger:
    """What a shard's attempt tells the ledger: remembers it, and can be away."""

    def __init__(self):
        self.told, self.away = [], False

    def progress(self, ref, attempt_id, *, done, started=(), finished=()):
        if self.away:
            raise BrokerError("away")
        self.told.append((done, sorted(started), sorted(finished)))
        return Reply("yes")

    @property
    def finished(self):
        return [token for _, _, finished in self.told for token in finished]


NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
RUN = "20260501T120000Z-abc123.g2"


@pytest.fixture
def ledger():
    return ToldLedger()


@pytest.fixture
def now():
    return NOW


@pytest.fixture(scope="session")
def signing_key():
    return SigningKey.generate()


@pytest.fixture(scope="session")
def fleet_key():
    return FleetKey.generate()


@pytest.fixture
def trusted(signing_key):
    return TrustedSigners(signers=[signing_key.entry(evals=["team-*", "solo"], queues=["mst.grade.*"])])


@pytest.fixture
def envelope(signing_key):
    place = f"s3://bucket/store/team-a/dispatches/{RUN}/d1"
    return Envelope(
        run_id=RUN,
        dispatch="d1",
        work="grade",
        shard=3,
        count=8,
        eval_name="team-a",
        queue="mst.grade.0.1.0",
        bundle_uri=f"{place}/bundles/{'a' * 64}",
        bundle_sha256="a" * 64,
        bundle_digest="b" * 64,
        results_uri=f"{place}/shards/3",
        limits=ShardLimits(),
        deadline=NOW + timedelta(hours=24),
        mst="0.1.0",
        plugins={"mst-extra": "1.2"},
        grant_slot=f"grant:{RUN}.d1.grade",
        key_id=signing_key.key_id,
    )
