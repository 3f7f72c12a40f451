"""Looking at runs that only an S3 store has: every command by name and by URI, and how little of a run it moves."""

import json
from pathlib import Path

import pytest

from mst.runs.cached import read_stored
from mst.store import open_store
from mst.testing.commandline import call_mst
from mst.testing.servers import seaweedfs
from mst.testing.stored_run import write_echo_eval

pytestmark = pytest.mark.server
BULK = 3_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as running:
        yield running


@pytest.fixture
def mst(capsys, server, tmp_path, monkeypatch):
    """`mst` on a machine that has no results and a cache of its own."""
    for name, value in server.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: call_mst(capsys, *arguments)


@pytest.fixture
def stored(mst, server, tmp_path):
    """The store's URI, and IDs of two runs in it whose artifacts are large."""
    uri, ids = server.uri("looking"), []
    for number in range(2):
        config = write_echo_eval(tmp_path / "eval", cases=4 + number)
        said = mst("run", config, "--output-dir", tmp_path / "made", "--no-grade")
        assert said.code == 0, said.err
        runs = (tmp_path / "made").glob("*/runs/*")
        (folder,) = (path for path in runs if ".g" not in path.name and f"{path.name}.g2" not in ids)
        (folder / "artifacts" / "plain" / "case-0" / "0").mkdir(parents=True)
        (folder / "artifacts" / "plain" / "case-0" / "0" / "bulk.bin").write_bytes(bytes(BULK))
        assert mst("grade", folder, "--output-dir", tmp_path / "made", "--results", uri).code == 0
        ids.append(f"{folder.name}.g2")
    return uri, ids


def settled(uri, run_id):
    """The URI of a run: its place in the path, the settings behind it."""
    base, mark, settings = uri.partition("?")
    return f"{base}/echoes/runs/{run_id}{mark}{settings}"


def test_every_command_reads_what_only_s3_has(mst, stored, tmp_path):
    uri, (first, second) = stored
    rows = json.loads(mst("ls", "--results", uri, "--json").out)["runs"]
    assert [row["runId"] for row in rows if row["gradedFrom"]] == sorted((first, second), reverse=True)
    by_id = mst("compare", first, second, "--results", uri, "--json")
    assert by_id.code == 0, by_id.err
    assert json.loads(by_id.out)["cases"]["secondOnly"] == ["case-4"]
    by_uri = mst("compare", settled(uri, first), settled(uri, second), "--json")
    assert by_uri.out == by_id.out
    assert json.loads(mst("diagnose", "latest", "--results", uri, "--json").out)["runId"] == second
    said = mst("export", settled(uri, second), "--to", "csv", "-o", "trials.csv")
    assert said.code == 0, said.err
    assert len(Path("trials.csv").read_text().splitlines()) == 11
    page = Path(mst("open", settled(uri, second), "--print").out.strip())
    assert page.read_bytes().startswith(b"<!doctype html>")
    cached = sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert cached < BULK


def test_settings_in_a_uri_do_not_reach_what_is_printed(mst, stored):
    uri, (first, _) = stored
    said = mst("open", settled(uri, first), "--print")
    assert "?" not in said.out
    assert "endpoint_url" not in said.out


def test_the_cache_is_one_for_all_spellings_of_a_run(server, stored, tmp_path, mst):
    uri, (first, _) = stored
    store = open_store(uri, environ=server.environ())
    cache = tmp_path / "other"
    folders = {read_stored(store, ref, "numbers", cache).path for ref in (first, first.split("-")[1])}
    assert len(folders) == 1
