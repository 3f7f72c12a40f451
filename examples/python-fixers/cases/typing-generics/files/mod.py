"""Word counts."""

from typing import Dict, List


def count(words: List[str]) -> Dict[str, int]:
    totals: Dict[str, int] = {}
    for word in words:
        totals[word] = totals.get(word, 0) + 1
    return totals
