"""Progress: what a line says of units, shards, cost and time."""

import json
import os
import re
import shutil

import pytest

from mst.cli import progress as cli
from mst.cli.progress import Progress
from mst.model.keys import TrialKey
from mst.model.shard import UsageReport
from mst.shards.contract import ShardState
from mst.shards.spend import Bill


def test_a_line_says_units_shards_and_cost(capsys):
    with Progress("graded", 4, {}) as progress:
        progress.one_more(passed=True, cost_usd=0.25)
        progress.one_more(passed=None, problem=True, cost_usd=0.5)
        progress.state(ShardState(shard=0, state="committed"))
    line = capsys.readouterr().err
    assert "2/4 graded · 1 passed · 1 with errors · shards: 1 done · 0.75 USD" in line


def test_what_is_told_as_a_sum_is_not_added_again(capsys):
    with Progress("graded", 4, {}) as progress:
        progress.one_more(passed=True)
        progress.cost(0.5)
        progress.cost(0.75)
        progress.cost(0.5)
    assert " · 0.75 USD · " in capsys.readouterr().err


def test_little_is_not_nothing_and_nothing_is_not_said(capsys):
    with Progress("graded", 4, {}) as progress:
        progress.one_more(passed=True)
    assert "USD" not in capsys.readouterr().err
    with Progress("graded", 4, {}) as progress:
        progress.one_more(passed=True, cost_usd=0.0004)
    assert "under 0.01 USD" in capsys.readouterr().err


def test_programs_read_it_too(capsys):
    with Progress("graded", 4, {}, as_json=True) as progress:
        progress.one_more(passed=True, cost_usd=0.125)
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (last["costUsd"], last["done"], last["planned"]) == (0.125, 1, 4)


def test_a_bill_adds_up_what_units_of_all_shards_say():
    told = []
    bill = Bill(told.append)
    for number, usd in enumerate((0.25, None, 0.5)):
        key = TrialKey(variant="a", case_id="c", trial=number)
        bill.add(UsageReport(key=key, tokens=3, cost_usd=usd))
    assert told == [0.25, 0.75]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of a width, on which each change is shown at once."""

    def of(columns: int) -> None:
        monkeypatch.setattr(cli, "is_fancy", lambda: True)
        monkeypatch.setattr(cli, "LIVE_EVERY_S", 0.0)
        monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))

    return of


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_a_live_line_is_never_wider_than_the_terminal(terminal, capsys, columns):
    terminal(columns)
    with Progress("graded", 1680, {}) as progress:
        for shard, state in enumerate(("running", "committed", "queued", "lost", "failed")):
            progress.state(ShardState(shard=shard, state=state))
        for _ in range(200):
            progress.one_more(passed=True, problem=True, cost_usd=0.5)
    lines = [piece for row in capsys.readouterr().err.split("\n") for piece in row.split("\r\x1b[K")]
    assert max(len(line) for line in lines) < columns
    assert lines[-2].startswith("200/1680 graded"[: columns - 2])


def test_what_is_left_is_not_told_from_the_first_of_many(terminal, capsys):
    terminal(200)
    with Progress("graded", 168, {}) as progress:
        progress.one_more(passed=True)
        assert "left" not in capsys.readouterr().err
        for _ in range(20):
            progress.one_more(passed=True)
    assert "left" in capsys.readouterr().err


def test_why_the_first_broke_down_is_told_at_once_and_steers_no_terminal(capsys):
    with Progress("collected", 3, {}) as progress:
        progress.one_more(passed=None, problem=True, why="a, c0, trial 0: no\x1b[2J licence\nhere")
        assert capsys.readouterr().err == "mst: the first that broke down: a, c0, trial 0: no\u241b[2J licence here\n"
        progress.one_more(passed=None, problem=True, why="a, c1, trial 0: another")
    assert "another" not in capsys.readouterr().err


def test_a_rate_is_told_in_the_shortest_time_in_which_something_is_done():
    assert [cli._rate(each) for each in (40.0, 3.21, 0.5, 0.001)] == ["40/s", "3.21/s", "30/min", "3.6/h"]


def test_a_line_tells_the_rate_once_there_is_one_to_tell(monkeypatch, capsys):
    monkeypatch.setattr(cli, "FORECAST_AFTER_S", 0.0)
    with Progress("graded", 4, {}) as progress:
        progress.one_more(passed=True)
    assert re.search(r" · \d+ s · [\d.e+]+/s · about ", capsys.readouterr().err)


def test_plain_lines_come_further_apart_as_a_run_gets_longer_and_those_for_programs_do_not():
    plain, programs = Progress("graded", 4, {}), Progress("graded", 4, {}, as_json=True)
    assert [plain._pace_s(elapsed) for elapsed in (0, 600, 3600, 36_000)] == [10, 10, 60, 300]
    assert programs._pace_s(36_000) == 10


def test_hundreds_of_shards_that_are_lost_at_once_are_not_hundreds_of_lines(monkeypatch, capsys):
    with Progress("graded", 4, {}) as progress:
        for shard in range(500):
            progress.state(ShardState(shard=shard, state="lost", reason="its worker is gone"))
        monkeypatch.setattr(cli, "PLAIN_EVERY_S", 0.0)
        progress.state(ShardState(shard=500, state="lost", reason="its worker is gone"))
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mst: ")]
    assert len(lines) == cli.LOST_LINES + 1
    assert lines[0] == "mst: shard 0 lost, and goes out again: its worker is gone"
    assert lines[-1].startswith("mst: shard 500 lost, and goes out again: its worker is gone (and 480 more shards")


def test_a_long_reason_for_a_loss_keeps_its_end(capsys):
    reason = "the object " + "x" * 240 + " is corrupt"
    with Progress("graded", 4, {}) as progress:
        progress.state(ShardState(shard=1, state="failed", reason=reason))
    assert capsys.readouterr().err == f"mst: shard 1 failed: {reason}\n"
