"""Laws of the split."""

from hypothesis import given
from hypothesis import strategies as st

from mst.shards.split import shard_of, split

case_ids = st.lists(st.text(max_size=30), unique=True, max_size=60)


@given(case_ids, st.integers(1, 50))
def test_every_case_is_in_exactly_one_shard(ids, count):
    shards = split(ids, count)
    assert sorted(case_id for cases in shards.values() for case_id in cases) == sorted(ids)
    assert all(0 <= index < count for index in shards)


@given(case_ids, st.text(max_size=30), st.integers(1, 50))
def test_a_case_does_not_move_when_others_come_or_go(ids, case_id, count):
    assert case_id in split([*dict.fromkeys([*ids, case_id])], count)[shard_of(case_id, count)]
