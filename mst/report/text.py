"""Untrusted text made fit to show: control characters become symbols, and nothing is longer than it may be."""

from __future__ import annotations

import json
import re
from typing import Any

_BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_SYMBOLS: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: f"<U+{code:04X}>" for code in [*range(0x80, 0xA0), *_BIDI, 0x2028, 0x2029, 0xFEFF]},
}
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with control, direction-changing and unencodable characters replaced by what can be seen.

    Newlines and tabs stay. The result never steers a terminal, reorders what a reader sees, or fails to encode.
    """
    if text.isprintable():  # nothing of what is replaced is printable, and a translation costs many times the look
        return text
    return _SURROGATES.sub("\ufffd", text.translate(_SYMBOLS))


def one_line(text: str, *, limit: int = 200) -> str:
    """The text on one line, white space collapsed, at most `limit` characters long."""
    flat = visible(" ".join(text[: limit * 8].split()))
    return flat if len(flat) <= limit else flat[: limit - 3].rstrip() + "..."


def clipped(text: str, *, limit: int) -> str:
    """The visible text, cut at `limit` characters with a sentence that says how much is left out."""
    if len(text) <= limit:
        return visible(text)
    return f"{visible(text[:limit])}\n[{len(text) - limit:,} more characters are in the stored file]"


def shown(value: Any, *, limit: int) -> str:
    """Any stored value as clipped text: strings as they are, maps as `key: value` lines, other values as JSON."""
    if isinstance(value, str):
        return clipped(value, limit=limit)
    if isinstance(value, dict):
        return clipped("\n".join(_line(str(name), inner) for name, inner in value.items()), limit=limit)
    return clipped(_json(value), limit=limit)


def _line(name: str, value: Any) -> str:
    """One entry of a map. Text of several lines stands below its name, as it is, so that code stays readable."""
    text = value if isinstance(value, str) else _json(value)
    if "\n" not in text:
        return f"{name}: {text}"
    return f"{name}:\n" + "\n".join(f"    {line}" for line in text.rstrip("\n").split("\n"))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def names(ids: list[str], *, limit: int = 5) -> str:
    """Names as a list for a sentence: the first ones, then "and n more"; one more stands there itself."""
    shown = limit + 1 if len(ids) == limit + 1 else limit
    first = ", ".join(one_line(name, limit=60) for name in ids[:shown])
    return first if len(ids) <= shown else f"{first} and {len(ids) - shown:,} more"


def case_label(case_id: str) -> str:
    """A case's ID as every list, link and grid of the report writes it."""
    return one_line(case_id, limit=240)


def variant_label(name: str) -> str:
    """A variant's name as every list, link and grid of the report writes it."""
    return one_line(name, limit=120)
