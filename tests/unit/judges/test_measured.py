from __future__ import annotations

import asyncio

import pytest

from mst.judges.measured import Cheaper, Faster
from mst.model.case import GraderSpec
from mst.model.transcript import Transcript, Usage
from mst.testing.judge import make_context, make_subject


def compare(tmp_path, kind, baseline, candidate, **options):
    judge = kind(GraderSpec(type="x", options=options))
    return asyncio.run(judge.compare(baseline, candidate, make_context(tmp_path), candidate_first=True))


def side(tmp_path, *, ms=100.0, passed=True, **usage):
    made = make_subject(tmp_path, passed=passed)
    transcript = Transcript(final_text="x", usage=Usage(**usage) if usage else None)
    record = made.record.model_copy(update={"duration_ms": ms, "transcript": transcript})
    return type(made)(**{**vars(made), "record": record})


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [(100, 50, "candidate"), (50, 100, "baseline"), (100, 96, "tie"), (100, 95, "tie"), (100, 94, "candidate")],
)
def test_the_faster_wins_beyond_the_margin(tmp_path, baseline, candidate, expected):
    assert compare(tmp_path, Faster, side(tmp_path, ms=baseline), side(tmp_path, ms=candidate)).preference == expected


def test_the_margin_can_be_set(tmp_path):
    sides = side(tmp_path, ms=100), side(tmp_path, ms=80)
    assert compare(tmp_path, Faster, *sides, margin=0.3).preference == "tie"
    assert compare(tmp_path, Faster, *sides, margin=0).preference == "candidate"


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        ({"total_cost_usd": 2.0}, {"total_cost_usd": 1.0}, "candidate"),
        ({"estimated_cost_usd": 1.0}, {"total_cost_usd": 2.0, "estimated_cost_usd": 0.1}, "baseline"),
        ({"total_cost_usd": 0.0}, {"total_cost_usd": 0.0}, "tie"),
    ],
)
def test_the_cheaper_wins(tmp_path, baseline, candidate, expected):
    found = compare(tmp_path, Cheaper, side(tmp_path, **baseline), side(tmp_path, **candidate))
    assert found.preference == expected


def test_an_unknown_cost_is_not_zero(tmp_path):
    found = compare(tmp_path, Cheaper, side(tmp_path, total_cost_usd=1.0), side(tmp_path))
    assert found.skipped
    assert found.preference is None


@pytest.mark.parametrize("kind", [Cheaper, Faster])
@pytest.mark.parametrize(("passes", "expected"), [((True, False), "baseline"), ((False, False), "tie")])
def test_passing_comes_first(tmp_path, kind, passes, expected):
    sides = [side(tmp_path, passed=passed, ms=ms) for passed, ms in zip(passes, (100, 1), strict=True)]
    assert compare(tmp_path, kind, *sides).preference == expected
