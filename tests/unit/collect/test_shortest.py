"""Unified diffs of texts: format, and fallbacks for large changes."""

from __future__ import annotations

import time

import pytest

from mst.collect import shortest
from mst.collect.shortest import matching, split_lines, unified


def diff(before, after):
    return "\n".join(unified(before, after))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\n", "a\n", ""),
        ("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b"),
        ("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b"),
        ("a\n", "b\n", "@@ -1 +1 @@\n-a\n+b"),
        ("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a"),
        ("1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n", "@@ -3,3 +3,4 @@\n 3\n 4\n 5\n+6"),
    ],
)
def test_hunks_are_as_git_writes_them(before, after, expected):
    assert diff(before, after) == expected


def test_changes_far_apart_get_hunks_of_their_own():
    lines = [f"{n}\n" for n in range(40)]
    changed = ["x\n", *lines[1:39], "y\n"]
    assert diff("".join(lines), "".join(changed)).count("@@ -") == 2


def test_only_line_feeds_end_lines():
    assert split_lines("a\u2028b\x0cc\r\nd") == ["a\u2028b\x0cc\r\n", "d"]


def test_a_repeated_line_does_not_make_the_diff_longer_than_it_must_be():
    # The longest common block is not part of the longest common subsequence here.
    old = list("abxyzcd")
    new = list("xyzabcd")
    kept = sum(size for _, _, size in matching(old, new))
    assert kept == 5


@pytest.mark.parametrize("size", [1500, 6000])
def test_a_rewrite_takes_bounded_time_and_is_still_a_valid_diff(size, monkeypatch):
    monkeypatch.setattr(shortest, "MAX_EDITS", 200)
    old = [f"{n * 7919 % size}\n" for n in range(size)]
    new = [f"{n * 104729 % size}\n" for n in range(size)]
    started = time.process_time()
    blocks = matching(old, new)
    assert time.process_time() - started < 10
    for a, b, length in blocks:
        assert old[a : a + length] == new[b : b + length]
    assert blocks == sorted(blocks)
