"""The keys of the layout, literally: they are a format."""

import pytest

from mst.errors import UsageError
from mst.store.contract import check_key
from mst.store.layout import RunKeys, eval_folder, generation_of, latest_key, runs_folder, shard_number

RUN = "20260102T030405Z-abc123"


def test_the_layout_is_the_published_one():
    run = RunKeys("my eval/1", RUN)
    dispatch = run.dispatch("d2")
    shard = dispatch.shard(3)
    sha = "0" * 64
    keys = {
        latest_key("my eval/1"): "my%20eval%2F1/latest.json",
        eval_folder("my eval/1"): "my%20eval%2F1",
        runs_folder("my eval/1"): "my%20eval%2F1/runs",
        run.folder: f"my%20eval%2F1/runs/{RUN}",
        run.manifest(4): f"my%20eval%2F1/runs/{RUN}/manifest.4.json",
        run.claim: f"my%20eval%2F1/runs/{RUN}/claim.json",
        run.blob(sha): f"my%20eval%2F1/runs/{RUN}/blobs/{sha}",
        run.pack(sha): f"my%20eval%2F1/runs/{RUN}/packs/{sha}",
        run.dispatches: f"my%20eval%2F1/dispatches/{RUN}",
        dispatch.record: f"my%20eval%2F1/dispatches/{RUN}/d2/dispatch.json",
        dispatch.closed: f"my%20eval%2F1/dispatches/{RUN}/d2/closed.json",
        dispatch.bundle(sha): f"my%20eval%2F1/dispatches/{RUN}/d2/bundles/{sha}",
        dispatch.blob(sha): f"my%20eval%2F1/dispatches/{RUN}/d2/blobs/{sha}",
        shard.manifest: f"my%20eval%2F1/dispatches/{RUN}/d2/shards/3/manifest.json",
        shard.unit("1-00ff", "u.json"): f"my%20eval%2F1/dispatches/{RUN}/d2/shards/3/attempts/1-00ff/units/u.json",
    }
    for made, wanted in keys.items():
        assert made == wanted
        assert check_key(made)


@pytest.mark.parametrize("run_id", ["", "latest", "../x", f"{RUN}/..", f"{RUN}.g0", f"{RUN}\n", "abc123"])
def test_what_is_no_run_id_makes_no_key(run_id):
    with pytest.raises(UsageError, match="not a run ID"):
        RunKeys("e", run_id)


def test_names_of_manifests_and_shards_are_read_back():
    assert [generation_of(name) for name in ("manifest.1.json", "manifest.20.json")] == [1, 20]
    assert {generation_of(name) for name in ("manifest.json", "manifest.0.json", "manifest.01.json", "x")} == {None}
    assert [shard_number(name) for name in ("0", "17", "01", "-1", "x")] == [0, 17, None, None, None]
