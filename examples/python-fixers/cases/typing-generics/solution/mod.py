"""Word counts."""


def count(words: list[str]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for word in words:
        totals[word] = totals.get(word, 0) + 1
    return totals
