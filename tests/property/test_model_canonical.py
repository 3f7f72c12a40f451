"""The fast way to canonical JSON gives the bytes that RFC 8785 asks for, on anything."""

import json
import math

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from mst.model.base import canonical

texts = st.text(st.characters(), max_size=12)
near_the_edges = st.sampled_from(
    [2**53 - 1, 2**53, -(2**53), 1e-4, 9.9e-5, 1e15, 1e16, 1e21, 1e22, 5e-324, 0.1, -0.0, 1.0, 1e23]
)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False) | near_the_edges
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def told(function, value):
    try:
        return function(value)
    except ValueError as error:
        return ValueError, isinstance(error, rfc8785.CanonicalizationError)


@given(values)
@example({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7})
@example([333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001])
@example("\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f\x7f\u2028")
@example(-0.0)
@example("\ud800")
@example({"\udfff": 1})
def test_every_value_is_written_as_the_library_writes_it(value):
    assert told(canonical, value) == told(rfc8785.dumps, value)


@given(values.filter(lambda value: told(canonical, value).__class__ is bytes))
def test_canonical_bytes_are_a_fixed_point(value):
    assert canonical(json.loads(canonical(value), parse_int=float)) == canonical(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [-math.inf]}, 2**53 + 1, {1: 2}, {"a": object()}, b"x"])
def test_what_is_not_canonical_json_is_refused(value):
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical(value)
