from __future__ import annotations

import asyncio
import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.judges.smaller_diff import SmallerDiff, changed_lines
from mst.model.case import GraderSpec
from mst.testing.judge import make_context, make_subject

ONE = "--- a/m\n+++ b/m\n@@ -1 +1 @@\n-a\n+b\n"
TWO = "--- a/m\n+++ b/m\n@@ -1,2 +1,2 @@\n-a\n-b\n+c\n+d\n"


@pytest.mark.parametrize(
    ("diff", "lines"),
    [
        ("", 0),
        (ONE, 2),
        (TWO, 4),
        ("--- a/m\n+++ b/m\n@@ -1,2 +1,2 @@\n--- was a comment\n+++ is a comment\n x\n", 2),
        ("--- a/m\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n", 1),
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", 2),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", 1),
        ("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", 0),
        (ONE + TWO, 6),
    ],
)
def test_lines_are_counted_inside_hunks(diff, lines):
    assert changed_lines(diff) == lines


words = st.lists(st.sampled_from(["a", "-- a", "++ b", "@@ -1 +1 @@", "", " c"]), max_size=8)


@given(words, words)
def test_the_count_agrees_with_how_the_diff_was_made(before, after):
    diff = list(difflib.unified_diff(before, after, "a", "b", lineterm=""))
    made = sum(1 for line in list(difflib.ndiff(before, after)) if line[:2] in ("- ", "+ "))
    body = diff[2:]
    assert changed_lines("\n".join(diff)) == sum(line[:1] in "+-" and line != "" for line in body)
    assert (made == 0) == (changed_lines("\n".join(diff)) == 0)


@pytest.mark.parametrize(
    ("baseline", "candidate", "preference"),
    [
        ((True, TWO), (False, ONE), "baseline"),
        ((False, ONE), (True, TWO), "candidate"),
        ((False, ONE), (False, TWO), "tie"),
        ((True, ONE), (True, TWO), "baseline"),
        ((True, TWO), (True, ONE), "candidate"),
        ((True, ONE), (True, ONE), "tie"),
        ((None, TWO), (False, ONE), None),
        ((True, TWO), (None, ONE), None),
        ((None, ONE), (None, TWO), "baseline"),
        ((True, None), (False, None), "baseline"),
        ((True, ONE), (True, None), None),
    ],
)
def test_pass_beats_fail_then_fewer_lines_win(tmp_path, baseline, candidate, preference):
    sides = [make_subject(tmp_path, passed=passed, diff=diff) for passed, diff in (baseline, candidate)]
    judge = SmallerDiff(GraderSpec(type="smaller_diff"))
    found = asyncio.run(judge.compare(*sides, make_context(tmp_path), candidate_first=False))
    assert found.preference == preference
    assert found.skipped is (preference is None)
