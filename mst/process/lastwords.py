"""What a program said last: that is where it says why it failed."""

from __future__ import annotations

LIMIT = 300


def last_words(said: str | bytes, *, limit: int = LIMIT) -> str:
    """The last whole lines that fit into `limit` characters; of a single longer one its beginning.

    A cut by characters alone would begin in the middle of a word, and leave no room for the line that counts. Secrets
    are redacted before: a cut may split them.
    """
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    lines = [line.rstrip() for line in text.strip().splitlines() if line.strip()]
    kept: list[str] = []
    room = limit
    for line in reversed(lines):
        if len(line) > room:
            break
        kept.insert(0, line)
        room -= len(line) + 1
    if kept or not lines:
        return "\n".join(kept)
    return f"{lines[-1].strip()[: limit - 3].rstrip()}..."
