"""The manifest's JSON is a format: these bytes must stay readable, and what is wrong must be refused."""

import hashlib
import json
from datetime import UTC, datetime

import pytest

from mst.errors import CorruptFile, FormatError
from mst.model.manifest import ManifestFile, RegradeClaim, RunManifest, ShardManifest, SourceRun

RUN = "20260102T030405Z-abc123"
SHA = "0f" * 32
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

RUN_JSON = {
    "format": "mst.manifest/v1",
    "kind": "run",
    "checksum": "0" * 64,
    "evalName": "my eval",
    "runId": f"{RUN}.g2",
    "createdAt": "2026-01-02T03:04:05Z",
    "complete": True,
    "closed": False,
    "counts": {"trials": 2},
    "machine": {"id": "laptop"},
    "versions": {"mst": "0.1.0"},
    "files": [
        {"path": "run.json", "size": 2, "sha256": SHA, "executable": False},
        {"path": "a/b", "size": 0, "sha256": SHA, "object": "e/runs/x/blobs/y", "executable": True},
    ],
    "packs": [],
    "generation": 2,
    "predecessor": SHA,
    "source": {"runId": RUN, "generation": 1, "manifestSha256": SHA, "files": [], "packs": []},
}
SHARD_JSON = {
    "format": "mst.manifest/v1",
    "kind": "shard",
    "checksum": "0" * 64,
    "evalName": "e",
    "runId": RUN,
    "createdAt": "2026-01-02T03:04:05Z",
    "complete": False,
    "closed": True,
    "counts": {},
    "versions": {},
    "files": [],
    "packs": [],
    "dispatch": "d2",
    "shard": 3,
    "bundleDigest": SHA,
    "author": "coordinator-1",
    "attempts": ["1-00ff", "2-00ff"],
}


def sealed(content):
    """The document's bytes with their checksum, made by hand."""
    blank = json.dumps(content, separators=(",", ":"))
    return blank.replace('"checksum":"' + "0" * 64, f'"checksum":"{hashlib.sha256(blank.encode()).hexdigest()}', 1)


def test_a_run_manifest_is_this_json():
    manifest = RunManifest(
        eval_name="my eval",
        run_id=f"{RUN}.g2",
        created_at=AT,
        complete=True,
        counts={"trials": 2},
        machine={"id": "laptop"},
        versions={"mst": "0.1.0"},
        files=[
            ManifestFile(path="run.json", size=2, sha256=SHA),
            ManifestFile(path="a/b", size=0, sha256=SHA, object="e/runs/x/blobs/y", executable=True),
        ],
        generation=2,
        predecessor=SHA,
        source=SourceRun(run_id=RUN, generation=1, manifest_sha256=SHA),
    )
    assert manifest.to_json().decode() == sealed(RUN_JSON)
    assert RunManifest.from_json(sealed(RUN_JSON), "here") == manifest


def test_a_shard_manifest_is_this_json():
    manifest = ShardManifest.from_json(sealed(SHARD_JSON), "here")
    assert (manifest.dispatch, manifest.shard, manifest.closed, manifest.author) == ("d2", 3, True, "coordinator-1")
    assert manifest.to_json().decode() == sealed(SHARD_JSON)


def test_a_claim_is_this_json():
    claim = RegradeClaim(run_id=f"{RUN}.g2", claimant="me", created_at=AT)
    content = {
        "format": "mst.manifest/v1",
        "kind": "claim",
        "checksum": "0" * 64,
        "runId": f"{RUN}.g2",
        "claimant": "me",
        "createdAt": "2026-01-02T03:04:05Z",
    }
    assert claim.to_json().decode() == sealed(content)
    assert RegradeClaim.from_json(sealed(content), "here") == claim


def test_unknown_fields_of_a_newer_minor_version_are_ignored():
    assert RunManifest.from_json(sealed(RUN_JSON | {"novelty": 1}), "here").generation == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "shard"}, "a run was expected"),
        ({"generation": 0}, "generation"),
        ({"runId": "../x"}, "runId"),
        ({"predecessor": "abc"}, "predecessor"),
        ({"createdAt": "2026-01-02T03:04:05"}, "timezone"),
        ({"files": [{"path": "../x", "size": 1, "sha256": SHA}]}, "plain relative path"),
        ({"files": [{"path": "x", "size": -1, "sha256": SHA}]}, "size"),
        ({"files": [{"path": "x", "size": 1, "sha256": SHA}] * 2}, "listed twice"),
        ({"files": [{"path": "x", "size": 1, "sha256": SHA, "object": "../../other"}]}, "not a key of a store"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(change, message):
    with pytest.raises(CorruptFile, match=rf"the-place.*{message}") as caught:
        RunManifest.from_json(json.dumps(RUN_JSON | change), "the-place")
    assert "\n" not in str(caught.value)


def test_another_major_version_says_what_to_do():
    with pytest.raises(FormatError, match="upgrade"):
        RunManifest.from_json(json.dumps(RUN_JSON | {"format": "mst.manifest/v2"}), "here")


def test_no_flipped_bit_is_read():
    data = sealed(RUN_JSON | {"machine": {"checksum": "0" * 64}}).encode()
    assert RunManifest.from_json(data, "here").machine == {"checksum": "0" * 64}
    for at in range(len(data)):
        for bit in (1, 32):
            wrong = bytearray(data)
            wrong[at] ^= bit
            with pytest.raises((CorruptFile, FormatError)):
                RunManifest.from_json(bytes(wrong), "here")
