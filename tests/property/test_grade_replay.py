"""What a live source found, recorded and read back, is what a recorded source supplies."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mst.config.files import IndexedFiles
from mst.grade.contract import Grader, Pair
from mst.grade.live import Live
from mst.grade.recorded import Recorded
from mst.model.case import Case, EvalPlan, GraderSpec, Variant
from mst.model.keys import ComparisonKey, TrialKey
from mst.model.score import ComparisonGrading, TrialGrading
from mst.model.transcript import Event
from mst.process.redact import Redactor
from mst.testing.judge import make_subject

PLAN = EvalPlan(
    name="e", config_id="c", content_hash="h", variants=[Variant(name="a"), Variant(name="b")], baseline="a"
)
texts = st.text(max_size=30)
# Larger ones have no canonical JSON, so a grader with one has no identity.
integers = st.integers(-(2**53) + 1, 2**53 - 1)
patterns = st.sampled_from(["a+", "(", "^$", r"\d"])
options = st.one_of(
    st.tuples(st.just("contains_text"), st.fixed_dictionaries({"value": texts})),
    st.tuples(st.just("not_contains_text"), st.fixed_dictionaries({"value": st.lists(texts, max_size=3)})),
    st.tuples(st.just("matches_pattern"), st.fixed_dictionaries({"value": patterns})),
    st.tuples(st.just("equals"), st.fixed_dictionaries({"value": st.none() | integers | texts})),
    st.tuples(st.just("is_error"), st.fixed_dictionaries({"value": st.booleans()})),
    st.tuples(st.just("tool_call_count"), st.fixed_dictionaries({"min": st.integers(0, 3)})),
    st.tuples(
        st.just("tools_triggered"),
        st.fixed_dictionaries({"calls": st.lists(st.fixed_dictionaries({"name": st.sampled_from("ab")}), max_size=3)}),
    ),
    st.tuples(st.just("no_such_assertion"), st.just({})),
)
events = st.lists(
    st.builds(
        Event,
        kind=st.sampled_from(["tool_call", "message"]),
        name=st.sampled_from("ab"),
        is_error=st.none() | st.booleans(),
        output=texts,
    ),
    max_size=4,
)
diffs = st.none() | st.integers(0, 4).map(lambda lines: f"@@ -0,0 +1,{lines} @@\n" + "+x\n" * lines)


def source(folder: Path) -> Live:
    return Live(PLAN, files=IndexedFiles(), secrets={}, scratch=folder, redactor=Redactor(["a"]))


def recorded(data: bytes, kind: type[TrialGrading | ComparisonGrading]) -> Recorded:
    return Recorded(units=lambda _: kind.model_validate_json(data), missing_reason=lambda _: "lost")


@settings(max_examples=60, deadline=None)
@given(chosen=st.lists(options, max_size=5), text=st.none() | texts, happened=events)
def test_a_trials_scores_are_the_same_live_and_recorded(chosen, text, happened):
    graders = [
        Grader(name=f"{name}.{index}", role="assertion", spec=GraderSpec(type=name, options=value))
        for index, (name, value) in enumerate(chosen)
    ]
    key = TrialKey(variant="a", case_id="case-1", trial=0)
    with tempfile.TemporaryDirectory() as folder:
        subject = make_subject(Path(folder), text=text, events=happened)
        live = asyncio.run(source(Path(folder)).trial(key, subject, graders))
        again = asyncio.run(recorded(live.to_json(), TrialGrading).trial(key, subject, graders))
    assert again == live
    assert again.to_json() == live.to_json()


@settings(max_examples=60, deadline=None)
@given(sides=st.lists(st.tuples(st.integers(0, 3), st.booleans(), diffs, st.none() | st.booleans()), max_size=6))
def test_a_comparison_is_the_same_live_and_recorded(sides):
    judges = [Grader(name="pairwise.d", role="pairwise", spec=GraderSpec(type="smaller_diff"))]
    key = ComparisonKey(candidate="b", case_id="case-1")
    with tempfile.TemporaryDirectory() as folder:
        trials = {
            (variant, number): make_subject(
                Path(folder), variant="b" if variant else "a", trial=number, diff=diff, passed=passed
            )
            for number, variant, diff, passed in sides
        }
        pair = Pair(
            case=Case(id="case-1", dataset="d"),
            candidate="b",
            baseline_trials=[subject for (variant, _), subject in trials.items() if not variant],
            candidate_trials=[subject for (variant, _), subject in trials.items() if variant],
        )
        live = asyncio.run(source(Path(folder)).comparison(key, pair, judges))
        again = asyncio.run(recorded(live.to_json(), ComparisonGrading).comparison(key, pair, judges))
    assert again == live
    assert again.to_json() == live.to_json()
