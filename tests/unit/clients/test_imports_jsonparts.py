"""Large JSON in parts: the same values and places as the whole has, in flat memory."""

from __future__ import annotations

import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.clients.imports import jsonparts
from mst.clients.imports.jsonparts import JsonParts
from mst.clients.imports.records import ImportFault

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read(data, chunk=jsonparts.CHUNK_BYTES, **more):
    class Slow(io.BytesIO):
        def read(self, _size=-1):
            return super().read(chunk)

    parts = JsonParts(Slow(data), "f", **more)
    assert parts.opens("{")
    found = {}
    for key in parts.members():
        found[key] = list(parts.items()) if parts.opens("[") else parts.value()
    return found


@given(
    st.dictionaries(st.text(), VALUES, max_size=5),
    st.integers(1, 7),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_parts_are_what_the_whole_is_and_stand_where_they_say(value, chunk, indent, ascii_only):
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    found = read(data, chunk)
    assert list(found) == list(value)
    for key, part in found.items():
        pieces = part if isinstance(part, list) else [part]
        assert [piece[0] for piece in pieces] == (value[key] if isinstance(value[key], list) else [value[key]])
        for piece, at, length in pieces:
            assert json.loads(data[at : at + length]) == piece


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":[1,',
        '{"a":[1 2]}',
        '{"a":[1,]}',
        '{"a":1,}',
        '{"a" 1}',
        "{1:2}",
        '{"a":[tru',
    ],
)
def test_what_is_no_json_is_told(text):
    with pytest.raises(ImportFault, match=r"f: .*\(at byte \d+\)"):
        read(text.encode())


def test_a_mark_of_byte_order_is_passed_over():
    assert read(b'\xef\xbb\xbf {"a": 1}') == {"a": (1, 10, 1)}


def test_a_value_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(jsonparts, "CHUNK_BYTES", 64)
    with pytest.raises(ImportFault, match="damaged, or a value of more than"):
        read(json.dumps({"a": "x" * 10_000}).encode(), chunk=64, most=1000)


def test_memory_does_not_grow_with_the_file():
    item = json.dumps({"text": "x" * 1000}).encode()

    class Endless(io.RawIOBase):
        left = 30_000

        def read(self, _size=-1):
            taken = min(self.left, 1000)
            self.left -= taken
            return b"".join([item, b","] * taken) if taken else b""

    head = io.BytesIO(b'{"a":[')
    body = Endless()

    class Joined:
        def read(self, size=-1):
            return head.read(size) or body.read(size)

    parts = JsonParts(Joined(), "f")
    parts.opens("{")
    next(parts.members())
    parts.opens("[")
    tracemalloc.start()
    try:
        count = 0
        for _ in parts.items():
            count += 1
            if count == 30_000:
                break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 30_000
    assert peak < 12 * 1024**2
