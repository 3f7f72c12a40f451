"""Which run `latest.json` may point to."""

import pytest

from mst.errors import FormatError
from mst.model.run import LatestRecord, Phases
from mst.runs.latest import may_be_latest, publish_latest, read_latest
from mst.testing.stored_run import grade_here

STEM = "20260102T000000Z-aaaaaa"
OTHER = "20260101T000000Z-bbbbbb"
DAYS = {day: f"2026-01-0{day}T00:00:00.000Z" for day in (1, 2, 3)}


def latest(run_id, collected):
    return LatestRecord(run_id=run_id, created_at=DAYS[3], path=f"runs/{run_id}", collected_at=collected)


@pytest.mark.parametrize(
    ("what", "run_id", "collected", "present", "may"),
    [
        ({}, STEM, DAYS[2], None, True),
        ({"partial": True}, STEM, DAYS[2], None, False),
        ({"collect": "partial"}, STEM, DAYS[2], None, False),
        ({"grade": "partial"}, STEM, DAYS[2], None, False),
        ({"grade": "skipped"}, STEM, DAYS[2], None, False),
        ({"grade": "failed"}, STEM, DAYS[2], None, False),
        ({}, STEM, DAYS[2], latest(OTHER, DAYS[1]), True),
        ({}, STEM, DAYS[2], latest(OTHER, DAYS[2]), True),
        ({}, STEM, DAYS[2], latest(OTHER, DAYS[3]), False),
        # a regrade is as old as what it was collected from, and replaces another grading of the same trials
        ({}, f"{STEM}.g2", DAYS[2], latest(OTHER, DAYS[3]), False),
        ({}, f"{STEM}.g2", DAYS[2], latest(STEM, DAYS[2]), True),
        ({}, f"{STEM}.g2", DAYS[2], latest(f"{STEM}.g3", DAYS[2]), True),
        ({"collect": "partial"}, f"{STEM}.g2", DAYS[2], latest(STEM, DAYS[2]), False),
        # an older mst did not write when the present one was collected
        ({}, STEM, DAYS[2], latest(OTHER, None), False),
    ],
)
def test_only_a_complete_run_collected_no_earlier_becomes_latest(run, what, run_id, collected, present, may):
    phases = Phases(collect=what.get("collect", "complete"), grade=what.get("grade", "complete"))
    record = run.run().model_copy(update={"run_id": run_id, "phases": phases, "partial": what.get("partial", False)})
    assert may_be_latest(record, collected, present) is may


def test_a_graded_run_is_published_with_the_time_of_its_trials(run, tmp_path):
    graded = grade_here(run, tmp_path / "scratch").folder
    assert publish_latest(graded)
    found = read_latest(run.path.parent.parent / "latest.json")
    assert found.run_id == graded.run_id == f"{run.run_id}.g2"
    assert found.collected_at == run.run().created_at
    assert found.path == f"runs/{graded.run_id}"


def test_an_unreadable_pointer_is_replaced_but_a_newer_one_is_not(run, tmp_path):
    path = run.path.parent.parent / "latest.json"
    graded = grade_here(run, tmp_path / "scratch").folder
    path.write_text('{"format": "mst.run/v1", "kind": "la')
    assert publish_latest(graded)
    path.write_text(path.read_text().replace("mst.run/v1", "mst.run/v2"))
    with pytest.raises(FormatError, match="upgrade"):
        publish_latest(graded)
