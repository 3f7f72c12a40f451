"""The shortest edit between two texts, as a unified diff. Pure.

Algorithm: Eugene W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986): the greedy
forward search. A diff that is longer than it must be would be counted against the variant that made the change.
"""

from __future__ import annotations

import difflib
from array import array
from collections.abc import Iterator, Sequence

CONTEXT_LINES = 3
MAX_EDITS = 1000
"""Beyond this many changed lines the search would take seconds; then a diff is made that need not be the shortest."""
MAX_FALLBACK_LINES = 5000
"""Beyond this many lines on a side, the changed part is shown as replaced whole."""


def unified(before: str, after: str) -> Iterator[str]:
    """Hunks of the change from one text to another, lines without their line ends. Nothing when they are equal."""
    old, new = split_lines(before), split_lines(after)
    for group in _Shortest(old, new).get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from _lines(" ", old[old_from:old_to])
                continue
            yield from _lines("-", old[old_from:old_to])
            yield from _lines("+", new[new_from:new_to])


def split_lines(text: str) -> list[str]:
    """Lines with their line feeds. Only that ends a line: other separators of Unicode are ordinary characters here."""
    parts = text.split("\n")
    lines = [part + "\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


class _Shortest(difflib.SequenceMatcher[str]):
    """`difflib` groups and numbers; which lines match is decided here."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        # An empty pair: its own index of the lines would be made for nothing.
        super().__init__(None, "", "", autojunk=False)
        self.old, self.new = old, new

    def get_matching_blocks(self) -> list[difflib.Match]:
        return [*(difflib.Match(*block) for block in matching(self.old, self.new)), self._end()]

    def _end(self) -> difflib.Match:
        return difflib.Match(len(self.old), len(self.new), 0)


def matching(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of equal lines `(from in old, from in new, length)`, ascending: the most lines that can be kept.

    The most, that is, within `MAX_EDITS`; beyond that it is a valid choice, but not always the best.
    """
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    blocks = [(0, 0, head)]
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    blocks += [(head + a, head + b, size) for a, b, size in _inner(inner_old, inner_new)]
    blocks.append((len(old) - tail, len(new) - tail, tail))
    return _joined(blocks)


def _inner(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    if not old or not new:
        return []
    pairs = _search(old, new)
    if pairs is not None:
        return [(a, b, 1) for a, b in pairs]
    if max(len(old), len(new)) > MAX_FALLBACK_LINES:
        return []
    return [(b.a, b.b, b.size) for b in difflib.SequenceMatcher(None, old, new).get_matching_blocks()]


def _search(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]] | None:
    """Pairs of kept lines on a shortest edit path; None when it has more than `MAX_EDITS` edits."""
    size_old, size_new = len(old), len(new)
    most = min(size_old + size_new, MAX_EDITS)
    # reach[k + zero]: how far along the old text the best path on diagonal k has come.
    zero = most + 1
    reach = [0] * (2 * most + 3)
    trail: list[array[int]] = []
    for edits in range(most + 1):
        trail.append(array("q", reach[zero - edits - 1 : zero + edits + 2]))
        for k in range(-edits, edits + 1, 2):
            at = k + zero
            down = k == -edits or (k != edits and reach[at - 1] < reach[at + 1])
            x = reach[at + 1] if down else reach[at - 1] + 1
            while x < size_old and x - k < size_new and old[x] == new[x - k]:
                x += 1
            reach[at] = x
            if x >= size_old and x - k >= size_new:
                return _walk_back(trail, size_old, size_new)
    return None


def _walk_back(trail: list[array[int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, zero = trail[edits], edits + 1
        k = x - y
        down = k == -edits or (k != edits and reach[k - 1 + zero] < reach[k + 1 + zero])
        before = k + 1 if down else k - 1
        from_x = reach[before + zero] if edits else 0
        from_y = from_x - before if edits else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = from_x, from_y
    pairs.reverse()
    return pairs


def _joined(blocks: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    joined: list[tuple[int, int, int]] = []
    for a, b, size in blocks:
        if size == 0:
            continue
        if joined and joined[-1][0] + joined[-1][2] == a and joined[-1][1] + joined[-1][2] == b:
            joined[-1] = (joined[-1][0], joined[-1][1], joined[-1][2] + size)
        else:
            joined.append((a, b, size))
    return joined


def _span(start: int, stop: int) -> str:
    # The format counts lines from 1, but names the line before when there is none.
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


def _lines(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"
