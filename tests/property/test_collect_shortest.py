"""Laws of the diff: it is as short as can be, and it turns the one text into the other."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mst.collect.shortest import matching, split_lines, unified

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n"]), max_size=12)
TEXTS = st.lists(st.sampled_from(["a", "b", "", "\r", "c"]), max_size=10).map("\n".join)


def longest_common(old, new):
    row = [0] * (len(new) + 1)
    for left in old:
        last = row
        row = [0]
        for index, right in enumerate(new):
            row.append(last[index] + 1 if left == right else max(row[-1], last[index + 1]))
    return row[-1]


def apply(before, hunks):
    """What `patch` does with hunks, in the plainest way."""
    old, new, at = split_lines(before), [], 0
    lines = list(hunks)
    for index, line in enumerate(lines):
        if line.startswith("\\"):
            continue
        if line.startswith("@@"):
            start = line.split()[1][1:].split(",")
            begin = int(start[0]) - (0 if start[-1] == "0" and len(start) == 2 else 1)
            new += old[at:begin]
            at = begin
            continue
        end = "" if index + 1 < len(lines) and lines[index + 1].startswith("\\") else "\n"
        text = line[1:] + end
        if line[0] in " -":
            assert old[at] == text
            at += 1
        if line[0] in " +":
            new.append(text)
    return "".join(new + old[at:])


@given(LINES, LINES)
def test_no_diff_could_keep_more_lines(old, new):
    blocks = matching(old, new)
    assert sum(size for _, _, size in blocks) == longest_common(old, new)
    assert all(old[a : a + n] == new[b : b + n] for a, b, n in blocks)
    assert all(x[0] + x[2] <= y[0] and x[1] + x[2] <= y[1] for x, y in pairwise(blocks))


@given(TEXTS, TEXTS)
def test_applying_the_diff_gives_the_new_text(before, after):
    assert apply(before, unified(before, after)) == after
