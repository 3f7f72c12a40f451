from mst.model.base import FileRef
from mst.model.keys import TrialKey
from mst.model.results import TrialResult
from mst.model.score import GraderScore
from mst.model.transcript import Event, Transcript
from mst.report import details
from mst.report.details import comparison_detail, trial_detail


def first(made):
    case = next(iter(made.folder.case_results()))
    return case, case.trial_results[0], made.folder.trial(TrialKey(variant=case.variant, case_id=case.id, trial=0))


def test_a_trial_has_its_transcript_diff_artifacts_scores_and_file(alone):
    case, trial, record = first(alone)
    detail = trial_detail(case, trial, record)
    assert [event["kind"] for event in detail["events"]] == ["message", "tool_call", "command"]
    assert detail["diff"].startswith("--- a/mod.py")
    assert [path for path, _ in detail["artifacts"]] == ["mod.py", "a<b>.txt"]
    assert detail["scores"][0]["checks"][0] == {"name": "behaviour", "passed": True, "graded": True}
    assert (alone.folder.path / detail["file"]).is_file()


def test_a_missing_trial_has_an_outcome_and_nothing_else(alone):
    case, _, _ = first(alone)
    absent = TrialResult(trial=1, passed=None, scores={}, duration_ms=0, failure_kind="missing")
    assert trial_detail(case, absent, None) == {"trial": 1, "outcome": "missing"}


def test_zero_is_a_score_and_stays(alone):
    case, trial, _ = first(alone)
    zero = trial.model_copy(update={"scores": {"judge.x": GraderScore(passed=False, score=0.0)}})
    assert trial_detail(case, zero, None)["scores"][0]["score"] == 0.0


def test_long_transcripts_lists_and_texts_are_bounded(alone):
    case, trial, record = first(alone)
    long = record.model_copy(
        update={
            "transcript": Transcript(events=[Event(kind="message", name="a", output="z" * 50_000)] * 300),
            "artifact_files": [FileRef(path=f"f{n}", sha256="0" * 64, size=1) for n in range(300)],
            "diff": "+" * 100_000,
        }
    )
    detail = trial_detail(case, trial, long)
    assert len(detail["events"]) == details.MAX_EVENTS
    assert detail["moreEvents"] == 100
    assert detail["moreArtifacts"] == 100
    assert len(detail["events"][0]["output"]) < details.EVENT_LIMIT + 100
    assert len(detail["diff"]) < details.DIFF_LIMIT + 100


def test_states_of_a_score_are_told_apart():
    words = [
        details._state(GraderScore(passed=True)),
        details._state(GraderScore(passed=False)),
        details._state(GraderScore(passed=False, graded=False)),
        details._state(GraderScore(passed=True, skipped=True)),
        details._state(GraderScore(passed=True, deferred=["query"])),
        details._state(GraderScore(passed=False, error="boom")),
    ]
    assert words == ["passed", "failed", "failed, informational", "skipped", "deferred", "grading error"]


def test_a_comparison_keeps_both_orders(four):
    record = next(
        record for record in four.folder.preferences() if record.judge == "pairwise.reader" and record.preference.pairs
    )
    detail = comparison_detail(record)
    assert [call["order"] for call in detail["calls"]] == ["baseline_first", "candidate_first"]
    assert "\x1b" not in str(detail["calls"][0]["reasoning"])
