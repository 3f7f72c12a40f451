import io

import pytest
from rich.console import Console

from mst.report.listing import list_document, render_list
from mst.runs.listed import Listed, ListedRun


def listed(made, *names):
    base = made.summary.variants[0]
    variants = [base.model_copy(update={"name": name, "pass_rate": 0.5}) for name in names]
    return ListedRun(run=made.run, state="complete", latest=True, variants=variants, place="results/x")


def rendered(listed, *, width=80):
    stream = io.StringIO()
    render_list(listed, Console(file=stream, width=width))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_row_says_what_to_type_when_how_far_and_what_passed(four):
    lines = rendered(Listed([listed(four, "a", "b")], 0, []))
    assert lines[1].split()[0] == "7f3c2a"
    assert lines[1].endswith("python-fixers  complete, latest  a 50.0%, b 50.0%")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_rates_wrap_between_variants_and_fit(four, width):
    lines = rendered(Listed([listed(four, *(f"variant-{number}" for number in range(9)))], 0, []), width=width)
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert all(line.count("variant-") == line.count("%") for line in lines)
        assert "and 3 more" in lines[-1]


def test_a_run_without_grades_has_no_rates(four):
    assert rendered(Listed([listed(four)], 0, []))[1].endswith("-")


def test_the_document_spells_out_what_is_not_known(four):
    one = listed(four, "a")
    variant = one.variants[0].model_copy(update={"pass_rate": None})
    document = list_document(Listed([ListedRun(one.run, "complete", False, [variant], "x")], 3, [])).to_print()
    assert document["more"] == 3
    (row,) = document["runs"]
    assert row["variants"][0]["passRate"] is None
    assert (row["shortId"], row["state"], row["latest"]) == ("7f3c2a", "complete", False)
