"""Some of many values, as they are now."""

import pytest

from mst.process.some import Some

VALUES = {"A": "one", "B": "two"}


def test_only_the_named_values_are_in_it():
    some = Some(VALUES, ["B", "C", "B"])
    assert dict(some) == {"B": "two"}
    assert len(some) == 1
    assert "A" not in some
    with pytest.raises(KeyError):
        some["A"]


def test_a_renewed_value_is_there_at_once():
    values = dict(VALUES)
    some = Some(values, ["A", "C"])
    values |= {"A": "new", "C": "three"}
    assert dict(some) == {"A": "new", "C": "three"}


def test_no_value_is_shown():
    assert "two" not in repr(Some(VALUES, ["B"]))
