"""What programs and servers say they used: no number of theirs makes a sum over a run infinite, or negative."""

import pytest
from pydantic import ValidationError

from mst.agents.codex import _added
from mst.clients.imports.records import number
from mst.clients.parsers import closing_fields
from mst.errors import GraderError
from mst.grade.checks import Returned
from mst.judges.verdict import Spent, parse_answer
from mst.judges.verdict import Verdict as Answer
from mst.model.transcript import MOST, Usage
from mst.providers.spending import known_usage, priced_as, total_usage

UNTRUE = [-1, MOST + 1, 10**400, 1e308, float("inf"), float("nan")]


@pytest.mark.parametrize("value", UNTRUE)
def test_what_cannot_be_true_is_not_known(value):
    assert Usage.told(total_cost_usd=value, input_tokens=3) == Usage(input_tokens=3)
    assert "usage" not in closing_fields({"usage": {"total_cost_usd": value}})
    assert number(value) is None
    with pytest.raises(ValidationError):
        Spent(total_cost_usd=value)


def test_a_judge_is_told_what_is_wrong_with_its_usage():
    with pytest.raises(GraderError, match=r"usage\.input_?[tT]okens"):
        parse_answer('{"score": 0.9, "usage": {"input_tokens": -5}}', Answer)


def test_what_was_said_counts_before_what_was_estimated():
    assert Usage(total_cost_usd=0.0, estimated_cost_usd=2.0).cost_usd == 0.0
    assert Usage(estimated_cost_usd=2.0).cost_usd == 2.0
    assert Usage(turns=1).cost_usd is None


def test_what_one_does_not_know_is_unknown_of_all_and_left_out_of_what_is_known():
    used = [Usage(input_tokens=3, output_tokens=1), Usage(input_tokens=4)]
    assert total_usage(used) == Usage(input_tokens=7)
    assert known_usage(used) == Usage(input_tokens=7, output_tokens=1)
    assert total_usage([*used, None]) is None
    assert known_usage([*used, None]) == known_usage(used)
    assert known_usage([None]) is None
    assert used[1].known_tokens == 4


def test_sums_stay_at_the_bound():
    most = Usage(total_cost_usd=MOST, input_tokens=MOST)
    for found in (known_usage([most, most]), total_usage([most, most])):
        assert found is not None
        assert (found.total_cost_usd, found.input_tokens) == (MOST, MOST)
    again = _added(Usage(input_tokens=MOST), {"input_tokens": MOST})
    assert Usage.model_validate_json(again.to_json()).input_tokens == MOST
    dear = priced_as(Usage(input_tokens=MOST, output_tokens=0), ["m"], {"m": {"input": 1e300, "output": 0}})
    assert dear.estimated_cost_usd == MOST


@pytest.mark.parametrize("value", [1e101, -1e308, float("inf"), float("nan")])
def test_a_metric_whose_square_would_not_be_finite_is_a_scorers_fault(value):
    with pytest.raises(ValidationError, match=r"metrics\.m"):
        Returned.model_validate({"checks": [], "metrics": {"m": value}})
    assert Returned.model_validate({"checks": [], "metrics": {"m": -1e100}}).metrics == {"m": -1e100}
