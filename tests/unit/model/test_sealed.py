"""A document that is sealed tells of any bit that is not as it was written."""

import json
from datetime import UTC, datetime

import pytest

from mst.errors import CorruptFile, FormatError, NoChecksum
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
@pytest.mark.parametrize("reader", ["from_json", "of_any_version"])
def test_any_flipped_bit_is_noticed(document, reader):
    good, read = document.to_json(), getattr(type(document), reader)
    assert read(good, "here") == document
    for bit in range(8 * len(good)):
        wrong = bytearray(good)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptFile, FormatError)):
            read(bytes(wrong), "here")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.kind)
def test_what_an_earlier_version_wrote_has_no_checksum_and_is_readable(document):
    kind = type(document)
    content = {name: value for name, value in document.to_dict().items() if name != "checksum"}
    data = json.dumps(content).encode()
    assert kind.of_any_version(data, "here") == document
    with pytest.raises(NoChecksum, match="it has no checksum"):
        kind.from_json(data, "here")


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"[" * 100_000, b"{}", b'{"checksum": null}', b'{"novelty": 1}', b"\xff"],
    ids=["empty", "list", "deep", "nothing", "null", "unknown", "no text"],
)
def test_what_nobody_wrote_is_corrupt(data):
    with pytest.raises(CorruptFile):
        RegradeClaim.of_any_version(data, "here")
