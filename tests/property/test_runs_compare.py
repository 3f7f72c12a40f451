"""Laws of holding two gradings of the same trials against each other, whatever became of the trials."""

from hypothesis import given
from hypothesis import strategies as st

from mst.runs import compare
from mst.runs.compare import counts_of

LETTERS = st.text(alphabet="pfemu", max_size=5)
CASES = st.dictionaries(st.text(min_size=1, max_size=3), st.tuples(LETTERS, LETTERS), max_size=8)


def flips(cases, *, swapped=False):
    before = {name: pair[swapped] for name, pair in cases.items()}
    after = {name: pair[not swapped] for name, pair in cases.items()}
    return compare._variant_flips(before, after, list(cases))


@given(CASES)
def test_the_other_way_round_up_is_down_and_gained_is_lost(cases):
    there, back = flips(cases), flips(cases, swapped=True)
    assert (there.up, there.gained, there.cases_up) == (back.down, back.lost, back.cases_down)
    assert there.trials == back.trials


@given(CASES)
def test_every_trial_is_counted_at_most_once(cases):
    found = flips(cases)
    assert found.up + found.down + found.gained + found.lost <= found.trials
    assert found.trials == sum(min(map(len, pair)) for pair in cases.values())
    assert (len(found.cases_up) > 0) == (found.up > 0)


@given(CASES)
def test_the_same_grading_has_no_flips(cases):
    same = {name: (pair[0], pair[0]) for name, pair in cases.items()}
    found = flips(same)
    assert (found.up, found.down, found.gained, found.lost) == (0, 0, 0, 0)


@given(LETTERS)
def test_counts_add_up(letters):
    counts = counts_of(letters)
    assert counts.scored + counts.errored + counts.missing == counts.planned == len(letters) - letters.count("u")
    assert counts.passed <= counts.scored
