from __future__ import annotations

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from mst.judges import strictjson

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "not JSON"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' stands twice"),
        ("NaN", "not finite"),
        ("-Infinity", "not finite"),
        ("1e999", "not finite"),
        ("9007199254740993", r"beyond 2\^53"),
        ('"\\udc00"', "surrogate"),
        ('{"\\udc00": 1}', "surrogate"),
        (b'"\xff"', "not UTF-8"),
        ("[" * 101 + "]" * 101, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_could_not_be_stored_is_refused(data, reason):
    with pytest.raises(ValueError, match=reason):
        strictjson.loads(data)


@given(values)
def test_what_is_let_through_can_be_digested(value):
    try:
        found = strictjson.loads(json.dumps(value))
    except ValueError:
        return
    rfc8785.dumps(found)
