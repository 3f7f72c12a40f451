"""Who gave a verdict, and dropping what a machine or an attempt gave."""

import pytest

from mst.errors import CorruptFile, UsageError
from mst.model.base import canonical, digest_bytes
from mst.model.keys import TrialKey
from mst.model.score import GraderScore, TrialGrading
from mst.model.shard import Unit
from mst.runs.authors import AUTHORS, drop, given_by, note_authors, read_distrusted, settled
from mst.runs.earlier import adopt

FIRST, SECOND = "1-" + "a" * 16, "2-" + "b" * 16


def key(case):
    return TrialKey(variant="plain", case_id=case, trial=0)


def unit(run, case, *, attempt=FIRST, machine="m1", error=None, **scores):
    given = {name: GraderScore(passed=True, score=score) for name, score in scores.items()}
    if error:
        given[error] = GraderScore(passed=False, error="broke down")
    grading = TrialGrading(
        key=key(case), trial_digest="0" * 64, scores=given, identities=dict.fromkeys(given, "identity")
    )
    return Unit(
        work="grade",
        run_id=run.run_id,
        shard=0,
        bundle_digest="0" * 64,
        attempt=attempt,
        machine=machine,
        trial_grading=grading,
        payload_digest=digest_bytes(canonical(grading.to_dict())),
    )


def take(run, *units):
    note_authors(run, units)
    for one in units:
        adopt(run, "plain", one.trial_grading)


def said(run, *words):
    return given_by(run, read_distrusted(words))


def test_each_verdict_is_its_givers_by_machine_and_by_attempt(run):
    take(run, unit(run, "c1", judge=1.0), unit(run, "c2", judge=0.5, attempt=SECOND, machine="m2"))
    assert said(run, "machine=m1") == said(run, f"attempt={FIRST}") == {(key("c1"), "judge")}
    assert said(run, "machine=m1", f"attempt={SECOND}") == {(key("c1"), "judge"), (key("c2"), "judge")}


def test_a_verdict_that_was_only_handed_through_stays_its_first_givers(run):
    take(run, unit(run, "c1", judge=1.0, error="other"))
    take(run, unit(run, "c1", judge=1.0, other=0.3, attempt=SECOND, machine="m2"))
    assert said(run, "machine=m1") == {(key("c1"), "judge")}
    assert said(run, "machine=m2") == {(key("c1"), "other")}


def test_an_error_has_no_author(run):
    take(run, unit(run, "c1", error="judge"))
    assert not (run.path / AUTHORS).exists()


def test_noting_again_changes_nothing(run):
    again = unit(run, "c1", judge=1.0)
    take(run, again)
    before = (run.path / AUTHORS).read_bytes()
    take(run, again)
    assert (run.path / AUTHORS).read_bytes() == before


def test_what_is_dropped_is_gone_with_its_lines_and_the_rest_stays(run):
    take(run, unit(run, "c1", judge=1.0, other=1.0), unit(run, "c2", judge=0.5, attempt=SECOND, machine="m2"))
    drop(run, said(run, "machine=m1"), ["d1"])
    assert run.score("judge", key("c1")) is None
    assert run.score("other", key("c1")) is None
    assert run.score("judge", key("c2")).score.score == 0.5
    assert settled(run) == {"d1"}
    with pytest.raises(UsageError, match=r"known: m2$"):
        said(run, "machine=m1")
    drop(run, said(run, "machine=m2"), ["d2"])
    assert settled(run) == {"d1", "d2"}


def test_a_drop_that_died_after_the_files_is_found_again(run):
    take(run, unit(run, "c1", judge=1.0))
    run.score_path("judge", key("c1")).unlink()
    found = said(run, "machine=m1")
    drop(run, found, [])
    assert found == {(key("c1"), "judge")}


def test_one_who_gave_nothing_is_refused_beside_one_who_did(run):
    take(run, unit(run, "c1", judge=1.0))
    with pytest.raises(UsageError, match="attempt=nobody: gave no verdict"):
        said(run, "machine=m1", "attempt=nobody")


def test_a_grading_of_one_process_says_so(run):
    with pytest.raises(UsageError, match="does not say who gave its verdicts"):
        said(run, "machine=m1")


@pytest.mark.parametrize("word", ["m1", "machine", "machine=", "shard=1", ""])
def test_words_that_are_not_known_are_refused(word):
    with pytest.raises(UsageError, match="write machine=ID or attempt=ID"):
        read_distrusted([word])


def test_a_spoiled_line_is_named(run):
    (run.path / AUTHORS).write_text('{"type":"given","graders":["judge"]}\n{"type":\n')
    with pytest.raises(CorruptFile, match=rf"{AUTHORS}:2"):
        settled(run)
