import pytest

from mst.model.numbers import EnoughRecord, PositionUse, RepeatRate
from mst.report.beside import MAX_REGRESSIONS, enough_line, fact_tables, position_words, repeats_line
from mst.report.chunks import ChunkWriter
from mst.report.html import write_report
from mst.report.page import decisive_share, held_out_lines
from mst.report.rows import scan
from mst.report.table import comparison_rows
from mst.report.words import pairwise_line, warnings


def tables(made):
    return {table.title: table for table in fact_tables(made.summary)}


def verdict_on(made, candidate):
    return next(verdict for verdict in made.summary.verdicts if verdict.candidate == candidate)


def test_a_run_of_one_trial_has_no_table_of_repeats(four):
    assert list(tables(four)) == [
        "Is there enough data?",
        "How the metrics differ",
        "Does the order of the answers matter to the judge?",
        "Regression cases that fell",
        "Trials without a score",
    ]


def test_repeated_trials_have_a_row_for_each_k(repeated):
    table = tables(repeated)["Repeated trials"]
    assert [row[0] for row in table.rows] == [f"{name}, k = {k}" for name in ("autoflake", "ruff") for k in (1, 2, 3)]
    assert table.rows[5][1:] == ["75.0% [56.3, 93.7]", "66.7% [46.3, 87.0]", "24", "0"]


def test_one_variant_alone_has_nothing_to_compare(alone):
    assert tables(alone) == {}


def test_every_row_has_a_cell_for_each_heading(four, repeated):
    for made in (four, repeated):
        for table in fact_tables(made.summary):
            assert {len(row) for row in table.rows} == {len(table.heads)}


def test_trials_without_a_score_show_the_policy_and_its_bounds(four):
    rows = {row[0]: row[1:] for row in tables(four)["Trials without a score"].rows}
    assert rows["ruff"] == ["2", "71.4%", "65.2%", "65.2%", "73.9%"]


def test_a_regression_says_how_many_trials_would_be_evidence(four):
    [row] = tables(four)["Regression cases that fell"].rows
    assert row[0] == "query-none under ruff-unsafe"
    assert row[1:3] == ["1 of 1", "0 of 1"]
    assert row[-1] == "needs 5 trials to be evidence"


def test_long_lists_of_regressions_are_cut_and_counted(four):
    verdict = verdict_on(four, "ruff-unsafe")
    many = verdict.model_copy(update={"regression_tests": verdict.regression_tests * (MAX_REGRESSIONS + 7)})
    table = next(
        table
        for table in fact_tables(four.summary.model_copy(update={"verdicts": [many]}))
        if table.title == "Regression cases that fell"
    )
    assert len(table.rows) == MAX_REGRESSIONS
    assert "7 more are in summary.json" in table.note


def test_metrics_never_get_a_verdict_word(four):
    table = tables(four)["How the metrics differ"]
    text = " ".join(cell for row in table.rows for cell in row)
    assert not any(word in text for word in ("better", "worse", "cannot tell", "no difference"))
    assert "ruff: duration s mean" in text
    assert "pyupgrade: cost usd mean" not in text  # unknown there: no zero in its place


def enough(**given):
    values = {
        "units": 21, "decisive_units": 4, "decisive_needed": 7, "smallest_p": 0.0625, "power": 0.8,
        "detectable": 0.284, "wanted": 0.1, "units_for_wanted": 170, "more_trials_add_nothing": False,
    }  # fmt: skip
    return EnoughRecord(**{**values, **given})


@pytest.mark.parametrize(
    ("found", "cases", "said"),
    [
        (enough(), 21, "enough data? finds 28.4 points (80% power); 10.0 points would need 170 cases"),
        (enough(), 40, "enough data? finds 28.4 points (80% power); 10.0 points would need 170 units"),
        (enough(units_for_wanted=9), 21, "enough data? finds 28.4 points (80% power)"),
        (enough(detectable=None, units_for_wanted=None), 21, None),
        (None, 21, None),
    ],
)
def test_an_open_question_says_how_much_would_answer_it(four, found, cases, said):
    verdict = verdict_on(four, "pyupgrade").model_copy(update={"enough": found, "cases_compared": cases})
    assert enough_line(verdict) == said


def test_a_clear_verdict_does_not_ask_for_more(four):
    assert enough_line(verdict_on(four, "ruff")) is None


def test_repeats_in_short_are_those_that_every_case_has(repeated):
    variant = repeated.summary.variants[1]
    assert repeats_line(variant) == "ruff: pass@1 70.8%, pass@3 75.0%, pass^3 66.7%"
    short = [rate if rate.k < 3 else rate.model_copy(update={"too_few": 1}) for rate in variant.repeats]
    assert "pass@2 73.6%" in repeats_line(variant.model_copy(update={"repeats": short}))
    only = [RepeatRate(k=1, pass_at_k=0.5, pass_hat_k=0.5, cases=2, too_few=0)]
    assert repeats_line(variant.model_copy(update={"repeats": only})) is None


def test_a_pairwise_line_tells_flips_to_each_slot(four):
    reader = next(pairwise for pairwise in four.summary.variants[2].pairwise if pairwise.judge.endswith("reader"))
    assert pairwise_line(reader).endswith("flips 0 to first, 2 to second (p 0.50)")
    one_order = next(pairwise for pairwise in four.summary.variants[2].pairwise if pairwise is not reader)
    assert "flips" not in pairwise_line(one_order)
    assert decisive_share(one_order.summary) == "100.0% [72.2, 100.0]"


def test_flips_have_an_exact_p():
    found = PositionUse(
        pairs=20, consistent=10, flips_to_first=10, flips_to_second=0, half_flips=0, p_flips=2**-9, decisive=40
    )
    assert position_words(found) == "flips 10 to first, 0 to second (p 0.0020)"


def test_a_third_grading_of_the_same_trials_is_named(four):
    def said(run_id):
        return warnings(four.run.model_copy(update={"run_id": run_id}), four.summary)

    stem = four.run.run_id
    assert not any("of the same trials" in text for text in said(f"{stem}.g2"))
    assert said(f"{stem}.g3")[0].startswith("This is grading 3 of the same trials")


def test_groups_of_cases_stand_apart(four):
    rows = write_rows(four)
    assert rows["capability cases passed"][0] == "5 of 19"
    assert rows["regression cases passed"][3] == "3 of 4"
    assert rows["regression cases, trial pass rate"][3].startswith("75.0% [")
    assert rows["held-out cases, trial pass rate"][0].startswith("0.0% [0.0, ")
    lines = held_out_lines(four.summary)
    assert len(lines) == 3
    assert all("1 held-out case" in line and "not part of the verdict" in line for line in lines)


def write_rows(made):
    names = [variant.name for variant in made.summary.variants]
    with ChunkWriter(made.folder.path / "scratch", chunk_bytes=10_000) as chunks:
        rows = scan(made.folder, names, chunks)
    return {row.label: row.cells for row in comparison_rows(made.summary, rows) if not row.group}


def test_tables_are_behind_toggles_and_hostile_names_are_text(four, tmp_path):
    text = write_report(four.folder, tmp_path).read_text(encoding="utf-8")
    for title in tables(four):
        assert f"<details><summary>{title}</summary>" in text
    verdict = verdict_on(four, "ruff-unsafe")
    fell = verdict.regression_tests[0].model_copy(update={"case_id": "<b>\x1b[31m"})
    changed = four.summary.model_copy(update={"verdicts": [verdict.model_copy(update={"regression_tests": [fell]})]})
    [row] = [row for table in fact_tables(changed) if "fell" in table.title for row in table.rows]
    assert "\x1b" not in row[0]
