"""A document that is sealed tells of any bit that is not as it was written."""

from datetime import UTC, datetime

import pytest

from mst.errors import CorruptFile, FormatError
from mst.model.fleet import Closed
from mst.model.manifest import RegradeClaim, RunManifest
from mst.model.run import StoredLatest

RUN = "20260102T030405Z-abc123"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DOCUMENTS = [
    StoredLatest(run_id=RUN, created_at="2026-01-02T03:04:05Z", collected_at="2026-01-02T03:04:05Z", path="runs/x"),
    RegradeClaim(run_id=f"{RUN}.g2", claimant="me", created_at=AT),
    RunManifest(eval_name="e", run_id=RUN, created_at=AT, complete=True, generation=1),
    Closed(run_id=RUN, dispatch="d1", work="grade", reason="done", closed_at=AT, machine="m", shards=[]),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.kind)
def test_any_flipped_bit_is_noticed(document):
    good, kind = document.to_json(), type(document)
    assert kind.from_json(good, "here") == document
    for bit in range(8 * len(good)):
        wrong = bytearray(good)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptFile, FormatError)):
            kind.from_json(bytes(wrong), "here")
