import pytest

from mst.model.numbers import Rate
from mst.model.transcript import Usage
from mst.report import figures


def test_what_is_not_known_is_a_dash_and_never_zero():
    assert figures.percent(None) == figures.points(None) == figures.money(None) == figures.seconds(None) == "-"
    assert figures.cost(None) == figures.cost(Usage(input_tokens=3)) == "-"
    assert figures.p_value(None) == "p -"


def test_an_estimated_cost_is_marked():
    assert figures.cost(Usage(estimated_cost_usd=1.5)) == "~$1.50"
    assert figures.cost(Usage(estimated_cost_usd=1.5, total_cost_usd=0.002)) == "$0.0020"


@pytest.mark.parametrize(
    ("p", "said"),
    [(0.00001, "p < 0.0001"), (0.0039, "p 0.0039"), (0.25, "p 0.25"), (1.0, "p 1.00"), (0.0, "p < 0.0001")],
)
def test_p_values(p, said):
    assert figures.p_value(p) == said


def test_differences_carry_their_sign_and_level():
    assert figures.points(0.375) == "+37.5 points"
    assert figures.points(-0.0001) == "+0.0 points"
    assert figures.points_interval(Rate(lower=-0.01, upper=0.5), 0.95) == "[-1.0, +50.0] at 95%"


@pytest.mark.parametrize(
    ("duration_s", "said"), [(0.25, "250 ms"), (3, "3.0 s"), (125, "2 min 05 s"), (7325, "2 h 02 min")]
)
def test_durations_use_the_unit_that_reads_best(duration_s, said):
    assert figures.seconds(duration_s) == said


def test_sizes_and_counts():
    assert figures.size(12) == "12 B"
    assert figures.size(2048) == "2.0 KB"
    assert figures.size(3 * 1024**2) == "3.0 MB"
    assert figures.count(1, "loss", "losses") == "1 loss"
    assert figures.count(1200, "loss", "losses") == "1,200 losses"


def test_spans_of_time_are_coarser_the_longer_they_are():
    assert [figures.span(seconds) for seconds in (9.6, 119, 125, 7199, 10_900, 172_799, 187_300)] == [
        "10 s", "119 s", "2 min", "119 min", "3 h 1 min", "47 h 59 min", "2 days 4 h"]  # fmt: skip
