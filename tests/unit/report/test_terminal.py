import io

import pytest
from rich.console import Console

from mst.model.keys import short_id
from mst.report.failures import Excerpt
from mst.report.terminal import render_summary


def rendered(made, *, width=80, path=None, broken=None, **options):
    stream = io.StringIO()
    console = Console(file=stream, width=width, **options)
    render_summary(made.run, made.summary, report_path=path, console=console, broken=broken)
    return stream.getvalue()


def test_plain_text_has_a_row_per_variant_and_a_line_per_comparison(four):
    text = rendered(four)
    row = next(line for line in text.splitlines() if line.startswith("ruff "))
    assert row.split() == ["ruff", "15", "of", "24", "71.4%", "[50.0,", "86.2]", "0.90", "$0.0440", "102", "ms"]
    flat = " ".join(text.split())
    assert "ruff is better than autoflake: +45.0 points [+15.0, +75.0] at 98.33%, 9 cases up, 0 down" in flat
    assert "cannot tell whether pyupgrade is better than autoflake" in flat
    assert "pairwise.smaller_diff: ruff preferred in 72.7% of 22 cases, 10 wins" in flat


def test_regressions_come_before_other_flips_and_long_lists_are_cut(four):
    lines = [line.strip() for line in rendered(four, width=200).splitlines()]
    unsafe = next(number for number, line in enumerate(lines) if line.startswith("ruff-unsafe is better"))
    flips = [line for line in lines[unsafe:] if line.startswith(("regressions:", "down:", "up:"))]
    assert [line.split(":")[0] for line in flips] == ["regressions", "up"]
    assert flips[0] == "regressions: query-none"
    assert flips[1].endswith("and 9 more")


def test_gaps_are_counted_apart_from_failures(four):
    flat = " ".join(rendered(four).split())
    assert "ruff: 21 of 24 trials scored, 1 infrastructure failure, 1 missing, 1 ungraded" in flat
    assert "4 grading errors, not counted as failures: judge.tone 1, pairwise.reader 3" in flat


def test_a_trial_that_broke_down_is_told_with_its_reason_and_what_to_type(four):
    broken = Excerpt("ruff", "star-import", 0, "setup: no licence here")
    flat = " ".join(rendered(four, broken=broken).split())
    assert "e.g. ruff, star-import, trial 0: setup: no licence here" in flat
    assert f"all reasons, and what to do: mst diagnose {short_id(four.run.run_id)}" in flat


def test_a_whole_run_has_no_line_about_gaps(repeated):
    assert "trials scored" not in rendered(repeated)


@pytest.mark.parametrize("terminal", [True, False])
def test_no_line_is_wider_than_the_console(four, terminal):
    text = rendered(four, width=80, force_terminal=terminal, color_system=None)
    assert max(len(line) for line in text.splitlines()) <= 80


def test_colours_are_for_terminals_and_not_with_no_color(four, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in rendered(four)
    assert "\x1b[1;32mbetter" in rendered(four, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "32m" not in rendered(four, force_terminal=True, color_system="standard")


def test_hostile_names_do_not_steer_the_terminal(four):
    text = rendered(four)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text


def test_markup_in_a_name_is_only_text(four):
    verdict = four.summary.verdicts[1].model_copy(update={"flips_up": ["[bold red]x[/]"]})
    made = type(four)(four.folder, four.summary.model_copy(update={"verdicts": [verdict]}), four.cases)
    assert "[bold red]x[/]" in rendered(made)


def test_without_judges_there_is_no_judge_column(alone):
    assert "judge" not in rendered(alone)


def test_the_reports_path_is_on_one_line_however_long(four, tmp_path):
    path = tmp_path / ("long" * 30) / "index.html"
    assert f"report: {path}" in rendered(four, path=path).splitlines()


def test_repeats_and_what_would_be_enough_take_a_line_each(four, repeated):
    assert "ruff: pass@1 70.8%, pass@3 75.0%, pass^3 66.7%" in rendered(repeated).splitlines()
    assert "pass@" not in rendered(four)
    flat = " ".join(rendered(four).split())
    assert flat.count("enough data?") == 1  # of the one verdict that is open
    assert "enough data? finds 28.4 points (80% power); 10.0 points would need 170 cases" in flat


def test_in_a_narrow_terminal_no_variant_loses_its_name_and_no_number_is_cut(four):
    for width in (40, 50, 60, 70):
        text = rendered(four, width=width)
        assert max(map(len, text.splitlines())) <= width
        whole = " ".join(text.split())
        for variant in four.summary.variants:
            assert variant.name in whole
    paragraphs = " ".join(rendered(four, width=50).split())
    assert f"{four.summary.variants[0].name} (base): cases passed " in paragraphs
