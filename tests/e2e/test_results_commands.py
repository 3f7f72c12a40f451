"""Looking at results on the real command line: here, and in a store from a machine that has nothing."""

import json
import os
import shutil
import webbrowser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mst.testing.commandline import call_mst, run_mst
from mst.testing.stored_run import write_echo_eval

CASES = {f"c{number}": {"tags": ["regression"]} if number == 0 else {} for number in range(8)}


@pytest.fixture
def mst(capsys):
    return lambda *arguments: call_mst(capsys, *arguments)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mst" / "runs"


@pytest.fixture
def opened(monkeypatch):
    """What was opened in a browser."""
    found = []
    monkeypatch.setattr(webbrowser, "open", lambda url: found.append(url) or True)
    return found


def variants(polite):
    return [{"name": "plain", "input_template": "{{input}}"}, {"name": "polite", "input_template": polite}]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs of an eval, the second worse, both in a store: the folder that holds all of it, and their IDs."""
    home, ids = tmp_path_factory.mktemp("made"), []
    for name, words in (("a", "please {{input}}"), ("b", "no {{input}}")):
        write_echo_eval(home / name, cases=CASES, variants=variants(words))
        said = run_mst("run", f"{name}/eval.yaml", "--results", "file:store", "--fail-on", "never", "--json", cwd=home)
        assert said.code == 0, said.err
        ids.append(json.loads(said.out)["runId"])
    return home, ids


@pytest.fixture
def two(made, tmp_path, cache, monkeypatch):
    """A copy of both runs and of the store, in the folder where commands run; the runs' IDs."""
    home, ids = made
    for name in (".mst-results", "store"):
        shutil.copytree(home / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return ids


@pytest.fixture
def uri(tmp_path):
    return f"file:{tmp_path / 'store'}"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, two):
    """Another machine's folder: no results are here."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


def test_ls_here_and_in_a_store_lists_the_same_runs(mst, two, uri):
    here, there = (json.loads(mst("ls", "--json", *where).out)["runs"] for where in ([], ["--results", uri]))
    assert [row["runId"] for row in here] == sorted(two, reverse=True)
    keys = ("runId", "state", "latest", "variants", "createdAt")
    assert [[row[key] for key in keys] for row in here] == [[row[key] for key in keys] for row in there]
    text = mst("ls").out
    assert two[0][-6:] in text
    assert "plain 0.0%, polite" in " ".join(text.split())


def test_ls_says_when_there_is_nothing_and_when_something_is_wrong(mst, two, tmp_path):
    said = mst("ls", "--output-dir", tmp_path / "empty")
    assert (said.code, said.out, len(said.error_lines)) == (0, "", 1)
    assert "mst run CONFIG" in said.err
    (record,) = Path(".mst-results").glob(f"*/runs/{two[0]}/run.json")
    record.write_text("{")
    said = mst("ls")
    assert said.code == 4
    assert two[1][-6:] in said.out
    assert str(record) in said.err


def test_compare_says_what_changed_and_gates(mst, two):
    said = mst("compare", two[0][-6:], "latest")
    assert said.code == 0, said.err
    assert "variant polite input_template: please {{input}} -> no {{input}}" in " ".join(said.out.split())
    said = mst("compare", two[0], two[1], "--fail-on", "worse,regression")
    assert said.code == 1
    assert [line.partition(":")[0] for line in said.error_lines] == ["gate", "gate"]
    assert mst("compare", two[1], two[0], "--fail-on", "worse").code == 0
    document = json.loads(mst("compare", two[0], two[1], "--json").out)
    assert [variant["verdict"]["verdict"] for variant in document["variants"]] == ["cannot tell", "worse"]


def test_compare_takes_runs_of_a_store_and_by_uri(mst, two, uri, elsewhere, cache):
    document = json.loads(mst("compare", two[0][-6:], two[1], "--results", uri, "--json").out)
    assert document["first"]["runId"] == two[0]
    by_uri = json.loads(mst("compare", f"{uri}/echoes/runs/{two[0]}", uri, "--json").out)
    assert by_uri == document
    assert list(elsewhere.iterdir()) == []
    assert not [path for path in cache.rglob("*") if "transcripts" in path.parts or "artifacts" in path.parts]


def test_compare_of_two_gradings_has_no_verdict(mst, two):
    assert mst("grade", "latest", "--fail-on", "never").code == 0
    said = mst("compare", two[1], f"{two[1][-6:]}.g2")
    assert said.code == 0
    assert "two gradings of the same trials" in " ".join(said.out.split())
    assert mst("compare", two[1], two[1]).code == 2


def test_the_latest_of_a_store_is_never_one_that_is_only_here(mst, two, uri, tmp_path):
    said = mst("diagnose", "latest", "--results", f"file:{tmp_path / 'empty'}")
    assert (said.code, len(said.error_lines)) == (2, 1)
    config = write_echo_eval(tmp_path / "other", name="another", cases=1)
    assert mst("run", config, "--results", uri, "--fail-on", "never").code == 0
    for command in (["diagnose", "latest"], ["show", "latest"]):
        said = mst(*command, "--results", uri)
        assert (said.code, len(said.error_lines)) == (2, 1)
        assert "another, echoes" in said.err
    assert mst("show", two[0], "--results", f"file:{tmp_path / 'empty'}").code == 0


def test_diagnose_names_commands_that_fit_where_the_run_is(mst, two, uri, elsewhere, tmp_path):
    (elsewhere / "here").mkdir()
    found = json.loads(mst("diagnose", "latest", "--results", uri, "--json").out)
    assert found["outcomes"] == {"failed": 16}
    (cause,) = found["causes"]
    assert (cause["what"], cause["grader"], cause["count"]) == ("assertion", "contains_text", 16)
    commands = [step["command"] for step in cause["next"]]
    assert commands[0].startswith("mst validate ")
    assert commands[1] == f"mst open {two[1][-6:]} --results {uri}"
    root = tmp_path / ".mst-results"
    local = json.loads(mst("diagnose", two[1], "--output-dir", root, "--json").out)["causes"][0]["next"]
    assert local[1]["command"] == f"mst open {two[1][-6:]} --output-dir {root}"
    (folder,) = root.glob(f"*/runs/{two[1]}")
    by_path = json.loads(mst("diagnose", folder, "--json").out)["causes"][0]["next"]
    assert by_path[1]["command"] == f"mst open {folder}"


def test_diagnose_of_one_variant_and_of_one_that_is_not_there(mst, two):
    assert "all of 8 trials passed" in mst("diagnose", two[0], "--variant", "polite").out
    said = mst("diagnose", two[0], "--variant", "nix")
    assert (said.code, len(said.error_lines), "plain, polite" in said.err) == (2, 1, True)


def test_open_opens_the_report_and_makes_one_that_is_missing_or_older(mst, two, opened):
    said = mst("open", two[0])
    page = Path(said.out.strip())
    assert said.code == 0
    assert opened == [page.resolve().as_uri()]
    made = page.stat().st_mtime_ns
    assert mst("open", two[0], "--print").out.strip() == str(page)
    assert page.stat().st_mtime_ns == made
    assert len(opened) == 1
    os.utime(page, ns=(0, 0))
    mst("open", two[0], "--print")
    assert page.stat().st_mtime_ns > 0
    page.unlink()
    mst("open", two[0], "--print")
    assert page.is_file()


def test_open_says_when_no_browser_starts(mst, two, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    said = mst("open")
    assert said.code == 0
    assert "no browser" in said.err


def test_open_of_a_stored_run_fetches_its_page_or_what_it_is_made_of(mst, two, uri, elsewhere, cache, opened):
    page = Path(mst("open", "latest", "--results", uri).out.strip())
    assert page.is_relative_to(cache)
    assert opened == [page.as_uri()]
    assert not list(cache.rglob("transcripts"))
    for folder in Path(uri.removeprefix("file:")).parent.glob(f".mst-results/*/runs/{two[1]}/report"):
        for path in folder.rglob("*"):
            path.unlink()
        folder.rmdir()
    said = mst("store", "push", two[1], "--results", uri, "--output-dir", elsewhere.parent / ".mst-results")
    assert said.code == 0, said.err
    again = Path(mst("open", "latest", "--results", uri, "--print").out.strip())
    assert again != page
    assert again.read_bytes().count(b"<!doctype html>") == 1
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["junit", "csv", "jsonl", "markdown", "html", "parquet"])
def test_export_writes_the_same_here_and_from_a_store(mst, two, uri, elsewhere, name):
    if name == "parquet":
        pytest.importorskip("pyarrow")
    root = elsewhere.parent / ".mst-results"
    said = mst("export", two[1], "--to", name, "-o", "here", "--output-dir", root)
    assert said.code == 0, said.err
    assert mst("export", "latest", "--to", name, "-o", "there", "--results", uri).code == 0
    assert Path("here").read_bytes() == Path("there").read_bytes()
    assert sorted(path.name for path in elsewhere.iterdir()) == ["here", "there"]


def test_export_to_stdout_is_only_the_export(mst, two):
    root = ET.fromstring(mst("export", two[0], "--to", "junit", "--variant", "polite").out)
    assert [suite.get("name") for suite in root] == ["polite"]
    assert (root.get("tests"), root.get("failures")) == ("8", "0")
    lines = mst("export", two[0], "--to", "jsonl").out.splitlines()
    assert len([json.loads(line) for line in lines]) == 16


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "latest", "--to", "junit", "--table", "scores"],
        ["export", "latest", "--to", "csv", "--variant", "nix"],
        ["export", "latest", "--to", "csv", "-o", "none/x.csv"],
        ["export", "nonsense", "--to", "csv"],
        ["compare", "ffffff", "latest"],
        ["diagnose", "ffffff"],
        ["open", "ffffff", "--print"],
        ["ls", "--results", "nowhere:x"],
        ["compare", "latest", "latest", "--fail-on", "nonsense"],
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line_each(mst, two, arguments):
    said = mst(*arguments)
    assert (said.code, len(said.error_lines)) == (2, 1), said.err
    assert said.err.startswith("mst: ")
    assert said.out == ""


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_terminal_and_no_color_is_kept(mst, two, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    for arguments in (["compare", *two], ["diagnose", two[1]], ["ls"]):
        said = mst(*arguments)
        assert said.code == 0, said.err
        assert "\x1b" not in said.out
        assert all(len(line) <= width or line.strip().startswith("mst ") for line in said.out.splitlines())


def test_grade_sets_of_a_store_and_of_this_folder_are_shown_together(mst, two, uri):
    run = two[0]
    assert mst("grade", run, "--results", uri, "--fail-on", "never").code == 0  # g2, here and in the store
    assert mst("grade", run, "--results", uri, "--fail-on", "never").code == 0  # g3
    shutil.rmtree(Path(".mst-results/echoes/runs") / f"{run}.g3")  # as if another machine had made it
    assert mst("grade", run, "--results", uri, "--fail-on", "never").code == 0  # g4
    shutil.rmtree(Path("store/echoes/runs") / f"{run}.g4")  # as if it had not been pushed

    def shown(*arguments):
        document = json.loads(mst("show", *arguments, "--grade-sets", "--json").out)
        return [found["runId"].partition(".")[2] for found in document["sets"]]

    assert shown(run) == ["", "g2", "g4"]
    assert shown(run, "--results", uri) == ["", "g2", "g3", "g4"]
    assert shown(f"{uri}/echoes/runs/{run}.g3", "--output-dir", "nothing") == ["", "g2", "g3"]
