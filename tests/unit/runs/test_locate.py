"""From what people type to a run folder; numbers claimed by one process each."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from mst.errors import CorruptFile, InfrastructureError, UsageError
from mst.runs.folder import RunFolder
from mst.runs.latest import publish_latest
from mst.runs.locate import find_run, latest_run, latest_to_grade, new_regrade, new_run, regrades_of
from mst.testing.commandline import environment
from mst.testing.stored_run import grade_here

CLAIM = """
import sys
from pathlib import Path
from mst.runs.folder import RunFolder
from mst.runs.locate import new_regrade
sys.stdin.readline()
for _ in range(20):
    print(new_regrade(RunFolder(Path(sys.argv[1]))).run_id)
"""


def test_every_way_to_name_a_run_finds_it(run, tmp_path):
    root = tmp_path / "results"
    graded = grade_here(run, tmp_path / "scratch").folder
    publish_latest(graded)
    short = run.run_id[-6:]
    assert find_run(str(run.path), root).path == run.path
    assert find_run(run.run_id, root).path == run.path
    assert find_run(short, root).path == run.path
    assert find_run(f"{short}.g2", root).path == graded.path
    assert find_run(graded.run_id, root).path == graded.path
    assert find_run("latest", root).path == graded.path


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("nonsense", "is no run folder, and no run ID"),
        ("abcde", "is no run folder, and no run ID"),
        ("ffffff", "no run ffffff"),
        ("20260101T000000Z-ffffff", "no run"),
        ("ffffff.g1x", "is no run folder"),
    ],
)
def test_what_names_no_run_is_said_in_one_line(run, tmp_path, ref, says):
    with pytest.raises(UsageError, match=says) as refused:
        find_run(ref, tmp_path / "results")
    assert "\n" not in str(refused.value)


def test_a_short_form_of_two_runs_lists_both(run, tmp_path):
    twin = tmp_path / "results" / "other" / "runs" / f"20250101T000000Z-{run.run_id[-6:]}"
    twin.mkdir(parents=True)
    (twin / "run.json").write_bytes((run.path / "run.json").read_bytes())
    with pytest.raises(UsageError, match="several") as refused:
        find_run(run.run_id[-6:], tmp_path / "results")
    assert str(twin) in str(refused.value)
    assert str(run.path) in str(refused.value)


def changed(run, **changes):
    run.write_run(run.run().model_copy(update=changes))


def test_without_a_complete_run_there_is_no_latest(run, tmp_path):
    with pytest.raises(UsageError, match=f"{run.run_id} was collected and not graded: mst grade {run.run_id[-6:]}$"):
        latest_run(tmp_path / "results")
    changed(run, partial=True)
    with pytest.raises(UsageError, match=f"no complete run.*; name one that is not, such as {run.run_id}"):
        latest_run(tmp_path / "results")
    with pytest.raises(UsageError, match=r"no complete run under .*/nothing yet; 'mst run CONFIG' makes one"):
        latest_run(tmp_path / "nothing")


def test_who_grades_the_latest_means_what_was_collected_since_too(run, tmp_path):
    root = tmp_path / "results"
    assert latest_to_grade(root).path == run.path
    graded = grade_here(run, tmp_path / "scratch").folder
    publish_latest(graded)
    assert latest_to_grade(root).path == graded.path
    newer = RunFolder(run.path.with_name("99990101T000000Z-abcdef"))
    newer.path.mkdir()
    newer.write_run(run.run().model_copy(update={"run_id": newer.run_id, "created_at": "9999-01-01T00:00:00.000Z"}))
    assert latest_to_grade(root).path == newer.path
    # what is narrowed or still to come to its end is no eval's latest
    whole = newer.run()
    for change in ({"partial": True}, {"phases": whole.phases.model_copy(update={"collect": "partial"})}):
        newer.write_run(whole.model_copy(update=change))
        assert latest_to_grade(root).path == graded.path


def test_a_pointer_that_cannot_be_read_is_named(run, tmp_path):
    path = run.path.parent.parent / "latest.json"
    path.write_text("{")
    with pytest.raises(CorruptFile, match=r"latest\.json"):
        latest_run(tmp_path / "results")


def test_regrades_are_found_by_number_and_others_passed_over(run):
    made = [new_regrade(run) for _ in range(10)]
    for folder in made:
        (folder.path / "run.json").write_text("{}")
    for name in ("g2.bak", "gx", "g02"):
        spoiled = run.path.with_name(f"{run.run_id}.{name}")
        spoiled.mkdir()
        (spoiled / "run.json").write_text("{}")
    assert [folder.run_id.rpartition(".")[2] for folder in regrades_of(run)] == [f"g{n}" for n in range(2, 12)]


def test_a_regrade_of_a_regrade_keeps_the_stem(run):
    first = new_regrade(run)
    assert new_regrade(first).run_id == f"{run.run_id}.g3"


def test_processes_that_claim_at_once_never_share_a_number(run):
    claimers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(run.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for _ in range(3)
    ]
    said = [claimer.communicate("go\n")[0].split() for claimer in claimers]
    claimed = [name for names in said for name in names]
    assert len(claimed) == 60
    assert sorted(claimed, key=lambda name: int(name.rpartition(".g")[2])) == [
        f"{run.run_id}.g{n}" for n in range(2, 62)
    ]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InfrastructureError, match=r"cannot be created .*--output-dir"):
        new_run(tmp_path / "taken", "eval", datetime.now(UTC))
