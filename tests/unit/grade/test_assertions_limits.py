from __future__ import annotations

import pytest
from pydantic import ValidationError

from mst.errors import GraderError
from mst.grade.assertions import ASSERTIONS
from mst.model.transcript import Event, Transcript, Usage
from mst.testing.judge import make_subject

DIFF = (
    "diff --git a/src/m.py b/src/m.py\n--- a/src/m.py\n+++ b/src/m.py\n@@ -1,2 +1,3 @@\n-a\n+b\n+c\n x\n"
    "diff --git a/docs/p.png b/docs/p.png\nBinary files a/docs/p.png and b/docs/p.png differ\n"
)


def grade(name, subject, **options):
    found = ASSERTIONS[name]
    return found.grade(subject, found.Options.model_validate(options))


@pytest.mark.parametrize(
    ("options", "passed"),
    [
        ({"max_lines": 4}, True),
        ({"max_lines": 3}, False),
        ({"max_files": 1}, False),
        ({"max_added": 2, "max_removed": 1}, True),
        ({"max_removed": 0}, False),
        ({"only": ["src/*", "docs/*"]}, True),
        ({"only": ["src/*"]}, False),
        ({"never": ["*.lock"]}, True),
        ({"never": ["*.png"]}, False),
    ],
)
def test_a_change_within_bounds(tmp_path, options, passed):
    assert grade("diff_limits", make_subject(tmp_path, diff=DIFF), **options).passed is passed


def test_details_name_the_files_and_metrics_the_size(tmp_path):
    found = grade("diff_limits", make_subject(tmp_path, diff=DIFF), only=["src/*"])
    assert "docs/p.png" in found.details
    assert found.metrics == {"files": 2, "lines": 4}


def test_no_workspace_is_no_small_change(tmp_path):
    with pytest.raises(GraderError, match="no workspace"):
        grade("diff_limits", make_subject(tmp_path), max_lines=1)
    assert grade("diff_limits", make_subject(tmp_path, diff=""), max_lines=0).passed


def used(tmp_path, evidence="structured", **usage):
    events = [Event(kind="tool_call", name="a"), Event(kind="message", name="assistant")]
    subject = make_subject(tmp_path)
    transcript = Transcript(final_text="x", events=events, evidence=evidence, usage=Usage(**usage) if usage else None)
    record = subject.record.model_copy(update={"transcript": transcript, "duration_ms": 1500.0})
    return type(subject)(**{**vars(subject), "record": record})


@pytest.mark.parametrize(
    ("usage", "limits", "passed"),
    [
        ({}, {"duration_s": 2}, True),
        ({}, {"duration_s": 1}, False),
        ({"total_cost_usd": 0.5}, {"cost_usd": 0.5}, True),
        ({"estimated_cost_usd": 0.6}, {"cost_usd": 0.5}, False),
        ({"total_cost_usd": 0.1, "estimated_cost_usd": 0.6}, {"cost_usd": 0.5}, True),
        ({"input_tokens": 60, "output_tokens": 41}, {"tokens": 100}, False),
        ({"input_tokens": 60, "output_tokens": 40}, {"tokens": 100, "output_tokens": 40}, True),
        ({"turns": 3}, {"turns": 2}, False),
        ({}, {"tool_calls": 1}, True),
        ({}, {"tool_calls": 0}, False),
    ],
)
def test_what_a_trial_used(tmp_path, usage, limits, passed):
    assert grade("within_limits", used(tmp_path, **usage), **limits).passed is passed


def test_unknown_is_not_zero(tmp_path):
    subject = used(tmp_path)
    with pytest.raises(GraderError, match="not known: cost_usd"):
        grade("within_limits", subject, cost_usd=1)
    assert not grade("within_limits", subject, cost_usd=1, unknown="fail").passed
    assert grade("within_limits", subject, cost_usd=1, unknown="skip").skipped
    both = grade("within_limits", subject, cost_usd=1, duration_s=9, unknown="skip")
    assert both.passed
    assert not both.skipped


@pytest.mark.parametrize("usage", [{"input_tokens": 5}, {"output_tokens": 5}])
def test_half_of_a_sum_is_no_sum(tmp_path, usage):
    with pytest.raises(GraderError, match="not known: tokens"):
        grade("within_limits", used(tmp_path, **usage), tokens=100)


def test_a_known_excess_fails_whatever_is_unknown(tmp_path):
    assert not grade("within_limits", used(tmp_path), cost_usd=1, duration_s=1).passed


def test_tool_calls_need_structured_evidence(tmp_path):
    with pytest.raises(GraderError, match="tool_calls"):
        grade("within_limits", used(tmp_path, evidence="observed"), tool_calls=5)


@pytest.mark.parametrize("name", ["diff_limits", "within_limits"])
def test_no_limit_at_all_is_refused(name):
    with pytest.raises(ValidationError, match="at least one"):
        ASSERTIONS[name].Options.model_validate({})
