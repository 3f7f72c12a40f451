"""`mst run` with trials that break down at first: made again, linked, told, and never both counted."""

from __future__ import annotations

import json

import pytest

from mst.runs.assemble import planned_trials
from mst.runs.attempts import kept_attempts
from mst.runs.folder import RunFolder
from mst.testing.commandline import call_mst, start_mst, until

CONFIG = """
name: flaky
datasets: [{{file: cases.yaml}}]
client: command
client_options: {{argv: [cat, in.txt], input: none}}
trials: 2
concurrency: 1
retries: {retries}
variants: [{{name: a}}, {{name: b}}]
assertions: [{{contains_text: soup}}]
"""
LOCAL = []
PROCESS = ["--runner", "process", "--runner-option", "shards=2"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An eval of two cases; the set-up of one fails as long as there are marks to take."""
    monkeypatch.chdir(tmp_path)
    marks = tmp_path / "marks"
    marks.mkdir()
    fixture = tmp_path / "menu"
    fixture.mkdir()
    (fixture / "in.txt").write_text("soup\n")
    broken = f"rm {marks}/$(ls {marks} | head -1) 2>/dev/null && exit 7; exit 0"
    cases = [
        {"id": "steady", "input": "x", "files": "menu"},
        {"id": "flaky", "input": "x", "files": "menu", "setup": [["sh", "-c", broken]]},
    ]
    (tmp_path / "cases.yaml").write_text(json.dumps(cases))
    return tmp_path


def configure(home, *, retries, faults):
    (home / "eval.yaml").write_text(CONFIG.format(retries=retries))
    for number in range(faults):
        (home / "marks" / str(number)).touch()


def the_run(home):
    [path] = (home / ".mst-results" / "flaky" / "runs").iterdir()
    return RunFolder(path)


def attempts(folder):
    """Attempts of each trial that has more than one: IDs in order, from the kept ones and the record."""
    run = folder.run()
    found = {}
    for key in planned_trials(run.plan, folder.cases(), [variant.name for variant in run.variants]):
        chain = [*kept_attempts(folder, key), folder.trial(key)]
        if len(chain) > 1:
            assert [one.retry_of for one in chain] == [None, *(one.attempt_id for one in chain[:-1])]
            found[str(key)] = chain
    return found


@pytest.mark.parametrize("runner", [pytest.param(LOCAL, id="local"), pytest.param(PROCESS, id="process")])
def test_retries_are_made_told_and_counted_once(home, runner, capsys):
    configure(home, retries=5, faults=2)
    said = call_mst(capsys, "run", "eval.yaml", *runner, "--json")
    assert said.code == 0, said.err
    folder = the_run(home)
    chains = attempts(folder)
    assert sum(len(chain) - 1 for chain in chains.values()) == 2
    assert all(one.error_kind == "environment" for chain in chains.values() for one in chain[:-1])
    counts = [variant.counts for variant in folder.summary().variants]
    assert [(found.planned, found.scored) for found in counts] == [(4, 4), (4, 4)]
    assert sum(found.superseded or 0 for found in counts) == 2
    assert sum(found.retried or 0 for found in counts) == len(chains)
    shown = call_mst(capsys, "show", folder.run_id)
    assert "retried after a fault of the machine" in " ".join(shown.out.split())
    assert "retried after a fault of the machine" in (folder.path / "report" / "index.html").read_text()


@pytest.mark.parametrize("runner", [pytest.param(LOCAL, id="local"), pytest.param(PROCESS, id="process")])
def test_a_resume_links_what_broke_down_before_it(home, runner, capsys):
    configure(home, retries=0, faults=3)
    assert call_mst(capsys, "run", "eval.yaml", *runner).code == 3
    folder = the_run(home)
    records = [json.loads(path.read_bytes()) for path in folder.path.glob("transcripts/*/*/*.json")]
    assert sum(record["infrastructureError"] for record in records) == 3
    assert call_mst(capsys, "run", "eval.yaml", *runner, "--resume", folder.run_id).code == 0
    assert sum(len(chain) - 1 for chain in attempts(folder).values()) == 3
    assert sum(variant.counts.scored for variant in folder.summary().variants) == 8
    regraded = call_mst(capsys, "grade", folder.run_id)
    assert regraded.code == 0, regraded.err
    assert "3 trials were retried" in " ".join(regraded.out.split())


def test_a_run_killed_between_two_attempts_counts_each_trial_once(home, capsys):
    """The first attempt failed and the second runs when the process dies: both are lost, and made anew."""
    configure(home, retries=2, faults=0)
    wait = f"cd {home}; mkdir first 2>/dev/null && exit 7; touch waiting; while ! test -e go; do sleep 0.1; done"
    cases = [{"id": "flaky", "input": "x", "files": "menu", "setup": [["sh", "-c", wait]]}]
    (home / "cases.yaml").write_text(json.dumps(cases))
    process = start_mst("run", "eval.yaml", cwd=home)
    until((home / "waiting").exists, "the second attempt runs")
    process.kill()
    process.communicate()
    (home / "go").touch()
    folder = the_run(home)
    assert not folder.has_trials()
    assert call_mst(capsys, "run", "eval.yaml", "--resume", folder.run_id).code == 0
    assert [variant.counts.scored for variant in folder.summary().variants] == [2, 2]
    assert [variant.counts.planned for variant in folder.summary().variants] == [2, 2]
    assert attempts(folder) == {}
