from __future__ import annotations

import pytest

from mst.errors import UsageError
from mst.runs.narrowed import Only, read_only, selection_of


def test_words_of_one_kind_add_up():
    only = read_only(["errors", "case=a*", "case=b", "tag=slow", "failed"])
    assert only == Only(frozenset({"errors", "failed"}), ("a*", "b"), ("slow",))


@pytest.mark.parametrize("word", ["passed", "case=", "tag", "=x", "case", ""])
def test_other_words_are_refused_with_what_may_be_said(word):
    with pytest.raises(UsageError, match="errors, failed, case=ID or tag=TAG"):
        read_only([word])


def test_the_record_says_how_it_was_narrowed():
    selection = selection_of(read_only(["tag=slow", "failed"]), ["c1"], None)
    assert (selection.only, selection.cases) == (["failed", "tag=slow"], ["c1"])
