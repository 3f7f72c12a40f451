"""Taking secrets out of what is written: as they are, and as programs commonly encode them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"
_MIN_BASE64_BYTES = 6


class Redactor:
    """Replaces secrets by `[redacted]`.

    As they are, in base64 (at any alignment), in hex, URL-encoded, JSON-escaped, and as Python's tracebacks show texts.
    Every value is redacted, however short; one of a few characters will also blank ordinary words that contain it,
    so callers warn about those when secrets are read. Only the exact value of secrets under six bytes is looked for
    in base64, and none of them in hex. Knows the values, so it is never printed: its repr says only how many there
    are.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._known: set[str] = set()
        self.also(values)

    def also(self, values: Iterable[str]) -> None:
        """Look for these values too from now on."""
        self._known |= {form for value in values if value for form in _forms(value)}
        forms = self._known
        self._count = len(forms)
        # Longest first: a value that contains another goes as a whole.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._text = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        encoded = [re.escape(form.encode("utf-8", "surrogatepass")) for form in ordered]
        self._bytes = re.compile(b"|".join(encoded)) if encoded else None

    def __repr__(self) -> str:
        return f"Redactor({self._count} forms)"

    def __bool__(self) -> bool:
        return self._text is not None

    def finds(self, value: bytes) -> bool:
        """Whether a secret stands in these bytes, in any form."""
        return self._bytes is not None and self._bytes.search(value) is not None

    def text(self, value: str) -> str:
        """The text without secrets."""
        return value if self._text is None else self._text.sub(REDACTED, value)

    def data_bytes(self, value: bytes) -> bytes:
        """The bytes without secrets. Not for streams: a secret across two pieces would be missed."""
        return value if self._bytes is None else self._bytes.sub(REDACTED.encode(), value)

    def data(self, value: Any) -> Any:
        """A JSON-like value with every text in it, keys included, without secrets. Other types pass as they are."""
        if self._text is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.data(key): self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value


def _forms(value: str) -> Iterator[str]:
    yield value
    # A text that holds JSON holds the value escaped, in ASCII or not, and once more when JSON is nested in JSON.
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        yield once.replace("/", "\\/")
    # As tracebacks of Python show a value that has quotes or backslashes in it.
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]
    for safe in ("", "/"):
        yield quote(value, safe=safe)
        yield quote_plus(value, safe=safe)
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quote(value, safe=safe))
    yield from _encoded_forms(value.encode("utf-8", "surrogatepass"))


def _encoded_forms(raw: bytes) -> Iterator[str]:
    whole = base64.b64encode(raw).decode()
    for text in (whole, base64.urlsafe_b64encode(raw).decode()):
        yield text
        if len(raw) >= _MIN_BASE64_BYTES:
            yield text.rstrip("=")
    if len(raw) < _MIN_BASE64_BYTES:
        return
    yield from (raw.hex(), raw.hex().upper())
    # Inside a longer encoded text (`user:secret` of basic authentication) the value starts at one of three
    # alignments. The characters that also depend on its neighbours are left out.
    for skipped in (0, 1, 2):
        padded = b"\0" * skipped + raw
        start = (0, 2, 3)[skipped]
        end = len(padded) * 8 // 6
        for text in (base64.b64encode(padded).decode(), base64.urlsafe_b64encode(padded).decode()):
            yield text[start:end]
