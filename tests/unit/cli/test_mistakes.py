"""Mistakes on the command line are one line each, with the place and where to look."""

import json
import sys

import pytest

from mst.__main__ import main
from mst.cli.fleet_check import reason
from mst.cli.progress import Progress
from mst.shards.contract import ShardState
from mst.testing.commandline import call_mst


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nix.yaml"], "mst: CONFIG: no such file: nix.yaml"),
        (["run", __file__, "--secrets-file", "nix.env"], "mst: --secrets-file: no such file: nix.env"),
        (["grade", "latest", "--config", "nix.yaml"], "mst: --config: no such file: nix.yaml"),
        (["run"], "mst: Missing argument 'CONFIG'; see 'mst run --help'"),
        (["rnu"], "mst: No such command 'rnu' (did you mean 'run'?); see 'mst --help'"),
        (["fleet", "statis"], "mst: No such command 'statis' (did you mean 'status'?); see 'mst fleet --help'"),
        (["run", __file__, "--fail-on", "wrose"], "mst: --fail-on: 'wrose' is not one of any-failure, worse"),
        (["store", "ls", "a", "b"], "mst: Got unexpected extra argument (b); see 'mst store ls --help'"),
        (["run", __file__, "--trials", "x"], "mst: Invalid value for '--trials'"),
        (["export", "latest"], "mst: Missing option '--to'."),
    ],
)
def test_a_mistake_is_one_line_that_names_the_place(capsys, arguments, says):
    said = call_mst(capsys, *arguments)
    assert (said.code, said.out) == (2, "")
    (line,) = said.error_lines
    assert line.startswith(says)


def test_a_folder_where_a_config_is_expected_is_one_line_with_the_config_in_it(capsys, tmp_path):
    (tmp_path / "eval.yaml").write_text("name: x\n")
    (tmp_path / "other").mkdir()
    for folder, hint in ((tmp_path, f"; did you mean {tmp_path / 'eval.yaml'}?"), (tmp_path / "other", "")):
        for command in ("run", "validate"):
            said = call_mst(capsys, command, folder)
            assert (said.code, said.out) == (2, "")
            assert said.error_lines == [f"mst: CONFIG: {folder} is a folder, a file is expected{hint}"]


def test_an_interrupt_says_so_at_any_time(capsys, monkeypatch):
    def interrupted(_text):
        raise KeyboardInterrupt

    monkeypatch.setattr("mst.cli.schema.schema_of", interrupted)
    said = call_mst(capsys, "schema", "case")
    assert (said.code, said.error_lines) == (130, ["mst: interrupted; what was finished is kept"])


def test_an_interrupt_while_the_program_is_loading_shows_no_trace(capsys, monkeypatch):
    class Interrupting:
        @staticmethod
        def find_spec(name, *_):
            if name == "mst.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "mst.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupting, *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "\nmst: interrupted\n")


def test_a_group_alone_shows_its_help(capsys):
    said = call_mst(capsys, "store")
    assert "Commands:" in said.out + said.err


def test_shards_are_told_of_in_plain_words(capsys):
    with Progress("graded", None, {}) as progress:
        progress.one_more(passed=True)
        progress.state(ShardState(shard=0, state="committed"))
        progress.state(ShardState(shard=1, state="queued"))
        progress.state(ShardState(shard=2, state="lost", reason="its worker is gone"))
        progress.state(ShardState(shard=3, state="given_back", machine="w1", reason="it was told to end (drained)"))
        progress.state(ShardState(shard=4, state="given_back", machine="w1", reason="it was told to end (drained)"))
        progress.state(ShardState(shard=4, state="starting", machine="w2"))
    said = capsys.readouterr().err.splitlines()
    assert "mst: shard 2 lost, and goes out again: its worker is gone" in said
    assert "mst: shard 4 given back by w1: it was told to end (drained)" in said
    assert "mst: shard 4 goes on: w2 has it" in said
    assert "shards: 1 done, 1 changing workers, 1 going out again, 1 waiting, 1 starting" in said[-1]


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        (OSError(28, "No space left on device", "/x/report"), "mst: /x/report: No space left on device"),
        (
            OSError(18, "Invalid cross-device link", "/x/a", None, "/y/b"),
            "mst: /x/a and /y/b: Invalid cross-device link",
        ),
        (OSError(24, "Too many open files"), "mst: Too many open files"),
        (TimeoutError(), "mst: TimeoutError"),
    ],
)
def test_what_the_machine_refuses_is_one_line_with_the_place(capsys, monkeypatch, refused, says):
    def refuse(*_arguments, **_options):
        raise refused

    monkeypatch.setattr("mst.cli.ls.local_runs", refuse, raising=False)
    monkeypatch.setattr("mst.runs.listed.local_runs", refuse)
    said = call_mst(capsys, "ls")
    assert (said.code, said.out, said.error_lines) == (4, "", [says])


def test_what_others_wrote_neither_steers_nor_fills_the_terminal(capsys, tmp_path):
    config = tmp_path / "eval.json"
    named = "\x1b[31m" + "x" * 100_000
    config.write_text(json.dumps({"name": "n", "datasets": [{named: "a"}], "variants": [{"name": "v"}]}))
    said = call_mst(capsys, "validate", config)
    assert (said.code, "\x1b" in said.err) == (2, False)
    assert max(map(len, said.error_lines)) < 2100
    assert "more characters)" in said.err


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "mst: 1 trial, 4 at a time; time unknown\nmst: the broker does not answer\n",
            "mst: the broker does not answer",
        ),
        ("mst: 1 trial, 4 at a time\nTraceback (most recent call last):\n  File\nValueError: x\n", "ValueError: x"),
    ],
)
def test_a_fleet_check_says_why_and_not_what_was_about_to_run(said, why):
    assert reason(said).endswith(why)
    assert not reason(said).startswith("mst: 1 trial, 4 at a time; time")
