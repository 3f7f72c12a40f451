"""What the chaos run calls paid twice: no test on a fleet could show that it would notice."""

from mst.testing.chaos import asked_again

DURABLE = {"A c1": 100.0}


def test_an_attempt_that_began_after_a_unit_was_durable_and_asks_again_is_found():
    before, since = asked_again(["90 80 A c1", "102 101 A c1"], DURABLE)
    assert (len(before), since) == (1, [])
    assert before[0].startswith("A c1: durable at 100.000, asked again at 102")


def test_one_that_was_under_way_then_could_not_know_of_it():
    before, since = asked_again(["90 80 A c1", "102 99 A c1"], DURABLE)
    assert (before, len(since)) == ([], 1)


def test_what_is_not_durable_may_be_asked_again():
    assert asked_again(["90 80 A c2", "102 101 A c2", "99 80 A c1"], DURABLE) == ([], [])
