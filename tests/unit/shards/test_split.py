"""Which case goes to which shard: fixed for ever, since plans are made again from case IDs."""

import pytest

from mst.errors import UsageError
from mst.shards.split import shard_of, split

VECTORS = {
    # first four bytes of SHA-256 of the ID, big-endian
    "": 0xE3B0C442,
    "case-1": 0xBA225B98,
    "query-none": 0xBF039E7C,
    "ünïcode/with slash": 0x35F0F05D,
}


@pytest.mark.parametrize(("case_id", "number"), VECTORS.items())
@pytest.mark.parametrize("count", [1, 2, 3, 7, 10_000])
def test_a_case_always_goes_to_the_same_shard(case_id, number, count):
    assert shard_of(case_id, count) == number % count


def test_a_shard_has_its_cases_in_the_order_given_and_empty_ones_are_left_out():
    ids = [f"case-{number}" for number in range(20)]
    found = split(ids, 1000)
    assert sorted(found) == list(found)
    assert all(found.values())
    assert {index: sorted(cases, key=ids.index) for index, cases in found.items()} == found


def test_no_shards_at_all_is_refused():
    with pytest.raises(UsageError, match="shards=0"):
        split(["a"], 0)
