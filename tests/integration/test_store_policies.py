"""Each role does what it needs with its policy, on a real server, and nothing else.

The server does not know the condition `s3:if-none-match`, and moto looks at no condition of a policy at all, so what
Amazon makes of that one statement of the bucket's policy is done by a proxy in front of the server. No server of
Google's storage API that runs here has permissions.
"""

import json
import string
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from mst.errors import PreconditionFailed, StoreDenied, UsageError
from mst.model.manifest import ShardManifest
from mst.model.run import LatestRecord
from mst.store import open_store
from mst.store.age import store_now
from mst.store.commit import claim_regrade, commit_shard, publish_latest
from mst.store.fetch import fetch_run
from mst.store.gc import find_leftovers
from mst.store.layout import RunKeys
from mst.store.publish import RunFacts, push_run
from mst.store.session import shard_policy, shard_session
from mst.store.sink import UnitFiles, UnitSink
from mst.store.units import StoredUnits
from mst.store.verify import verify_run
from mst.testing.commandline import until
from mst.testing.faultproxy import fault_proxy
from mst.testing.servers import SESSION_ROLE, seaweedfs

pytestmark = pytest.mark.server
POLICIES = Path(__file__).parents[2] / "infra" / "policies"
RUN = "20260102T030405Z-abc123"
KEYS = RunKeys("my eval", RUN)
DISPATCH = KEYS.dispatch("d1")
SHARD = DISPATCH.shard(1)
NEW = RunKeys("new", RUN).dispatch("d1")
PREFIX = "team/evals"
AT = "2026-01-02T00:00:00Z"
SHA = "0" * 64
THERE = [
    DISPATCH.record,
    DISPATCH.bundle(SHA),
    DISPATCH.blob(SHA),
    SHARD.unit("1-a", "there"),
    DISPATCH.shard(2).unit("1-a", "there"),
    DISPATCH.shard(2).manifest,
    KEYS.dispatch("d2").record,
    KEYS.dispatch("d2").bundle(SHA),
    KEYS.dispatch("d2").shard(1).unit("1-a", "there"),
    KEYS.manifest(1),
    KEYS.blob(SHA),
    KEYS.pack(SHA),
    KEYS.index(SHA),
    KEYS.claim,
    "my%20eval/latest.json",
    "other/latest.json",
    "other/dispatches/20260102T030405Z-abc123/d1/dispatch.json",
]


def policy(name, **more):
    text = (POLICIES / f"{name}.json.tftpl").read_text()
    given = {"bucket_arn": "arn:aws:s3:::mst-test", "prefix": PREFIX, "kms_key_arn": "arn:aws:kms:::key/1"}
    return string.Template(text).substitute({**given, **more})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    policies = {name: policy(f"s3-{name}") for name in ("worker", "coordinator", "keeper")}
    policies["shard"] = policy("s3-shard", dispatch=f"{PREFIX}/{DISPATCH.folder}", shard="1")
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs"), policies) as running:
        yield running


@pytest.fixture
def admin(server):
    store = open_store(server.uri(PREFIX), environ=server.environ(), patience_s=0)
    elsewhere = open_store(server.uri("another/place"), environ=server.environ(), patience_s=0)
    for info in list(store.list("")):
        store.delete(info.key)
    for key in THERE:
        store.put(key, b"{}")
    elsewhere.put(DISPATCH.record, b"{}")
    return store


@pytest.fixture
def role(server, admin):
    return lambda name, prefix=PREFIX: open_store(server.uri(prefix), environ=server.role_environ(name), patience_s=0)


@pytest.fixture
def facts():
    return RunFacts(created_at=datetime(2026, 1, 2, tzinfo=UTC), complete=True)


@pytest.fixture
def manifest(facts):
    """Of the new dispatch's shard."""
    return ShardManifest(eval_name="new", run_id=RUN, dispatch="d1", shard=1, bundle_digest=SHA, author="2-b",
                         created_at=facts.created_at, complete=True)  # fmt: skip


def allowed(call):
    try:
        call()
    except StoreDenied:
        return False
    except PreconditionFailed:
        return True
    return True


def what_is_allowed(store, keys):
    """Every operation on every key: what of them goes through, without changing what is there for the next one."""
    return {
        "read": {key for key in keys if allowed(lambda key=key: store.get(key))},
        "list": {key for key in keys if allowed(lambda key=key: list(store.list(key)))},
        "write": {key for key in keys if allowed(lambda key=key: store.put(key, b"{}"))},
        "create": {key for key in keys if allowed(lambda key=key: store.put_if_absent(key, b"{}"))},
        "delete": {key for key in keys if allowed(lambda key=key: store.delete(key))},
    }


def under(*folders):
    return {key for key in THERE if key.startswith(folders)}


DISPATCHES = ("my%20eval/dispatches/", "other/dispatches/")


def test_a_worker_reads_dispatches_and_creates_results(role, admin):
    found = what_is_allowed(role("worker"), THERE)
    results = {key for key in THERE if "/attempts/" in key or key.endswith("/manifest.json")}
    assert found == {
        "read": under(*DISPATCHES),
        "list": under(*DISPATCHES),
        "write": results,
        "create": results,
        "delete": set(),
    }
    assert {info.key for info in admin.list("")} == set(THERE)


def test_a_session_for_one_shard_reaches_one_shard(role, admin):
    found = what_is_allowed(role("shard"), THERE)
    mine = under(f"{SHARD.folder}/")
    assert found == {
        "read": mine | {DISPATCH.record, DISPATCH.bundle(SHA), DISPATCH.blob(SHA)},
        "list": mine,
        "write": mine,
        "create": mine,
        "delete": set(),
    }


def test_a_session_that_was_taken_on_reaches_one_shard(server, admin):
    uri, sts = server.uri(PREFIX), {"AWS_ENDPOINT_URL_STS": server.endpoint_url}
    values, expires = shard_session(uri, SHARD, role_arn=SESSION_ROLE, duration_s=900, environ=server.environ() | sts)
    assert 0 < (expires - datetime.now(UTC)).total_seconds() <= 900
    found = what_is_allowed(open_store(uri, environ=values, patience_s=0), THERE)
    mine = under(f"{SHARD.folder}/")
    reads = mine | {DISPATCH.record, DISPATCH.bundle(SHA), DISPATCH.blob(SHA)}
    assert found == {"read": reads, "list": mine, "write": mine, "create": mine, "delete": set()}


def test_a_session_that_is_refused_is_one_clear_line(server):
    environ = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "very-secret"}
    sts = {"AWS_ENDPOINT_URL_STS": server.endpoint_url}
    with pytest.raises(StoreDenied, match=f"cannot take on {SESSION_ROLE}") as caught:
        shard_session(server.uri(PREFIX), SHARD, role_arn=SESSION_ROLE, duration_s=900, environ=environ | sts)
    assert "\n" not in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_the_policy_of_a_session_is_the_one_in_the_file():
    written = policy("s3-shard", dispatch=f"{PREFIX}/{DISPATCH.folder}", shard="1")
    assert json.loads(shard_policy(f"s3://mst-test/{PREFIX}?region=x", SHARD)) == json.loads(written)


def test_a_session_may_use_the_buckets_key_and_no_other_way_but_through_the_store():
    """A session has what both its policy and its role allow: without this, a bucket with a key of its own is closed."""
    statement = json.loads(shard_policy("s3://mst-test/x", SHARD))["Statement"][-1]
    assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert statement["Condition"] == {"StringLike": {"kms:ViaService": "s3.*"}}


def test_what_no_session_takes_is_refused():
    with pytest.raises(UsageError, match="shorten the store's prefix"):
        shard_policy(f"s3://mst-test/{'long/' * 50}", SHARD)
    with pytest.raises(UsageError, match="s3: stores"):
        shard_policy("gs://bucket/x", SHARD)
    with pytest.raises(UsageError, match="900 to 43200"):
        shard_session("s3://b/x", SHARD, role_arn="r", duration_s=60, environ={})


@pytest.mark.parametrize("name", ["worker", "shard"])
def test_a_worker_does_all_its_work(role, admin, tmp_path, name):
    store, stored = role(name), []
    assert store.head(DISPATCH.closed) is None
    for key in (DISPATCH.record, DISPATCH.bundle(SHA), DISPATCH.blob(SHA)):
        store.get_to(key, tmp_path / "got")
    assert "1-a" in store.list_folder(SHARD.attempts).folders
    assert dict(StoredUnits(store, SHARD, "1-a").read(["there"])) == {"there": b"{}"}
    with UnitSink(store, SHARD, "2-b", stored=stored.extend, spacing_s=0.01) as sink:
        for number in range(50):
            path = tmp_path / f"unit-{number}"
            path.write_bytes(b"unit" if number else b"x" * 9_000_000)
            sink.take(UnitFiles(path.name, path))
    assert len(stored) == 50
    assert len(StoredUnits(store, SHARD, "2-b").names) == 50
    store.put_if_absent(SHARD.manifest, b"{}")
    with pytest.raises(PreconditionFailed):
        store.put_if_absent(SHARD.manifest, b"{}")
    assert store.get(SHARD.manifest) == b"{}"


@pytest.mark.parametrize("name", ["worker", "shard", "coordinator", "keeper"])
def test_nobody_reaches_beyond_the_prefix(role, admin, name):
    found = what_is_allowed(role(name, "another/place"), [DISPATCH.record, SHARD.unit("1-a", "x")])
    assert found == {what: set() for what in found}
    assert not allowed(lambda: list(role(name, "").list("")))


def test_a_coordinator_pushes_fetches_claims_and_publishes(role, admin, tmp_path, facts):
    store = role("coordinator")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes(b"{}")
    (folder / "large").write_bytes(b"x" * 9_000_000)
    run_id = "20260303T030405Z-abc123"
    latest = LatestRecord(run_id=run_id, created_at=AT, collected_at=AT, path=f"runs/{run_id}")
    push_run(store, folder, eval_name="new", run_id=run_id, facts=facts, latest=latest)
    assert publish_latest(store, "new", latest)
    fetch_run(store, eval_name="new", run_id=run_id, into=tmp_path / "got")
    assert claim_regrade(store, eval_name="new", source=run_id, claimant="me", now=facts.created_at) == f"{run_id}.g2"
    assert {info.key for info in store.list("")} > set(THERE)
    for key in (DISPATCH.closed, KEYS.dispatch("d3").record):
        store.put_if_absent(key, b"{}")
    store.delete(KEYS.dispatch("d3").record)


def test_a_coordinator_removes_nothing_but_a_dispatch_that_was_never_sent(role, admin):
    found = what_is_allowed(role("coordinator"), THERE)
    everything = set(THERE)
    records = {key for key in THERE if key.endswith("/dispatch.json")}
    assert found == {
        "read": everything, "list": everything, "write": everything, "create": everything, "delete": records,
    }  # fmt: skip


def test_a_keeper_removes_leftovers_and_writes_nothing(role, admin):
    store = role("keeper")
    found = what_is_allowed(store, THERE)
    parts = ("/blobs/", "/packs/", "/indexes/", "/bundles/", "/shards/")
    gone = {key for key in THERE if any(part in key for part in parts)}
    assert found == {"read": set(THERE), "list": set(THERE), "write": set(), "create": set(), "delete": gone}
    assert store_now(store, "my eval")


def test_a_keeper_verifies_and_clears(role, admin, tmp_path, facts):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes(b"{}")
    push_run(role("coordinator"), folder, eval_name="new", run_id=RUN, facts=facts)
    keeper = role("keeper")
    assert list(verify_run(keeper, RunKeys("new", RUN))) == []
    assert find_leftovers(keeper, "new", age=timedelta(days=1)) == []


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in POLICIES.glob("*.tftpl")))
def test_a_policy_is_a_document_of_known_form(name):
    document = json.loads(policy(name, dispatch="d", shard="1"))
    assert document["Version"] == "2012-10-17"
    for statement in document["Statement"]:
        assert set(statement) <= {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
        assert statement["Effect"] == ("Deny" if name == "s3-bucket" else "Allow")
        assert name == "s3-bucket" or statement["Action"] != "s3:*"
    assert "${" not in json.dumps(document)


def test_the_bucket_lets_nobody_overwrite_what_is_created_once():
    statements = {one["Sid"]: one for one in json.loads(policy("s3-bucket"))["Statement"]}
    once = statements["WhatIsCreatedOnce"]
    assert once["Condition"]["Null"] == {"s3:if-none-match": "true"}
    for key in (SHARD.manifest, KEYS.manifest(1), KEYS.claim, DISPATCH.record, DISPATCH.closed):
        last = key.rpartition("/")[2].replace(".1.", ".*.")
        assert any(resource.endswith(f"/*/{last}") for resource in once["Resource"])


@pytest.fixture
def amazon(server, admin):
    """The server behind what Amazon makes of that statement: an object is created without a condition nowhere there."""
    (once,) = json.loads(bucket_policy("WhatIsCreatedOnce"))["Statement"]
    patterns = [resource.partition(":::")[2] for resource in once["Resource"]]

    def denies(method, path, headers):
        address = urlsplit(path)
        query = parse_qs(address.query, keep_blank_values=True)
        creates = (method == "PUT" and "partNumber" not in query) or (method == "POST" and "uploadId" in query)
        covered = any(fnmatchcase(unquote(address.path).strip("/"), pattern) for pattern in patterns)
        return creates and covered and headers.get("If-None-Match") is None

    with fault_proxy(server.endpoint_url) as line:
        line.rule = denies
        yield replace(server, endpoint_url=line.url)


def test_all_that_a_run_and_a_dispatch_leave_can_be_written_under_the_buckets_policy(
    amazon, admin, tmp_path, facts, manifest
):
    store = open_store(amazon.uri(PREFIX), environ=amazon.role_environ("coordinator"), patience_s=0)
    worker = open_store(amazon.uri(PREFIX), environ=amazon.role_environ("worker"), patience_s=0)
    folder = tmp_path / "run"
    folder.mkdir()
    latest = LatestRecord(run_id=RUN, created_at=AT, collected_at=AT, path=f"runs/{RUN}")
    for number in range(2):
        (folder / "run.json").write_bytes(b"%d" % number)
        (folder / "large").write_bytes(b"%d" % number * 9_000_000)
        pushed = push_run(store, folder, eval_name="new", run_id=RUN, facts=facts, latest=latest)
    assert pushed.generation == 2
    assert claim_regrade(store, eval_name="new", source=RUN, claimant="me", now=facts.created_at) == f"{RUN}.g2"
    for key in (NEW.record, NEW.closed):
        store.put_if_absent(key, b"{}")
    store.put(NEW.plan, b"{}")
    (tmp_path / "artifact").write_bytes(b"x" * 9_000_000)
    with UnitSink(worker, NEW.shard(1), "2-b", stored=lambda _: None) as sink:
        sink.take(UnitFiles("unit", folder / "run.json", [tmp_path / "artifact"]))
    assert sink.error is None
    assert commit_shard(worker, manifest) == "committed"
    assert commit_shard(worker, manifest) == "mine"
    created_once = (RunKeys("new", RUN).manifest(1), RunKeys("new", f"{RUN}.g2").claim, NEW.record, NEW.closed,
                    NEW.shard(1).manifest)  # fmt: skip
    assert [key for key in created_once if allowed(lambda key=key: store.put(key, b"other"))] == []


def test_a_broken_manifest_is_mended_under_the_buckets_policy(amazon, admin, tmp_path, facts):
    store = open_store(amazon.uri(PREFIX), environ=amazon.role_environ("coordinator"), patience_s=0)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes(b"{}")
    push_run(store, folder, eval_name="new", run_id=RUN, facts=facts)
    admin.put(RunKeys("new", RUN).manifest(1), b"{")
    assert push_run(store, folder, eval_name="new", run_id=RUN, facts=facts, repair=True).generation == 2
    fetch_run(store, eval_name="new", run_id=RUN, into=tmp_path / "got")
    (found,) = verify_run(store, RunKeys("new", RUN))
    assert found.key == RunKeys("new", RUN).manifest(1)
    assert "the next generation counts" in found.mend


def bucket_policy(*sids):
    document = json.loads(policy("s3-bucket"))
    return json.dumps(document | {"Statement": [one for one in document["Statement"] if one["Sid"] in sids]})


def test_the_buckets_own_policy_holds_for_everyone(tmp_path):
    """On a server of its own: plain HTTP, which this one speaks, is refused to its administrator too."""
    boto3 = pytest.importorskip("boto3")
    with seaweedfs(tmp_path, {"coordinator": policy("s3-coordinator")}) as server:
        admin, coordinator = (
            open_store(server.uri(PREFIX), environ=environ, patience_s=0)
            for environ in (server.environ(), server.role_environ("coordinator"))
        )
        client = boto3.client(
            "s3",
            endpoint_url=server.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=server.key,
            aws_secret_access_key=server.secret,
        )
        for key in THERE:
            admin.put(key, b"{}")
        client.put_bucket_policy(Bucket=server.bucket, Policy=bucket_policy("WhatIsCreatedOnce", "WhatNobodyRemoves"))

        def removes(key):
            # this server does not ask the bucket's policy when several objects are removed at once, as stores do
            try:
                client.delete_object(Bucket=server.bucket, Key=f"{PREFIX}/{key}")
            except client.exceptions.ClientError:
                return False
            return True

        kept = {KEYS.manifest(1), KEYS.claim, "my%20eval/latest.json", "other/latest.json"}
        assert {key for key in THERE if not removes(key)} == kept
        coordinator.put_if_absent(DISPATCH.closed, b"{}")
        assert not removes(DISPATCH.closed)
        client.put_bucket_policy(Bucket=server.bucket, Policy=bucket_policy("TlsOnly"))
        until(lambda: not allowed(lambda: admin.get(KEYS.manifest(1))), "the policy is heeded")
        assert not allowed(lambda: coordinator.put(KEYS.blob(SHA), b"{}"))
