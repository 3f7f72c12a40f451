"""Mistakes on the command line are one line each, with the place and where to look."""

import pytest

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
        (["rnu"], "mst: No such command 'rnu'; see 'mst --help'"),
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


def test_a_group_alone_shows_its_help(capsys):
    said = call_mst(capsys, "store")
    assert "Commands:" in said.out + said.err


def test_shards_are_told_of_in_plain_words(capsys):
    with Progress("graded", None, {}) as progress:
        progress.one_more(passed=True)
        progress.state(ShardState(shard=0, state="committed"))
        progress.state(ShardState(shard=1, state="queued"))
        progress.state(ShardState(shard=2, state="lost", reason="its worker is being stopped"))
    said = capsys.readouterr().err.splitlines()
    assert "mst: shard 2 lost, and goes out again: its worker is being stopped" in said
    assert "shards: 1 done, 1 going out again, 1 waiting" in said[-1]
