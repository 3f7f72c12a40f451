"""What a key is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.errors import StoreError
from mst.model.keys import segment
from mst.store.contract import check_key, check_prefix, is_segment


@given(st.text(min_size=1, max_size=400))
def test_every_name_makes_a_segment_of_a_key(name):
    assert is_segment(segment(name))
    assert check_key(f"{segment(name)}/x") == f"{segment(name)}/x"


@given(st.text())
def test_what_passes_stays_inside(text):
    try:
        key = check_key(text)
    except StoreError:
        return
    assert all(part not in ("", ".", "..") for part in key.split("/"))
    assert key.isascii()
    assert not set(key) & set("\\\0\n\r\t ?#*")


def test_a_whole_store_is_a_prefix_and_no_key():
    assert check_prefix("") == ""
    with pytest.raises(StoreError):
        check_key("")


def test_long_keys_and_segments_are_refused():
    assert check_key("/".join(["x" * 255] * 3))
    with pytest.raises(StoreError):
        check_key("x" * 256)
    with pytest.raises(StoreError):
        check_key("/".join(["x" * 200] * 5))
