import json

from mst.report.gates import gate
from mst.report.summary_json import summary_document


def test_the_document_has_the_outcome_and_spells_out_what_is_unknown(four):
    document = summary_document(four.run, four.summary, path=four.folder.path, gate=gate(four.summary)).to_print()
    again = json.loads(json.dumps(document))
    assert again["format"] == "mst.run/v1"
    assert again["kind"] == "outcome"
    assert again["runId"] == four.folder.run_id
    assert again["phases"] == {"collect": "partial", "grade": "partial"}
    assert [verdict["verdict"] for verdict in again["verdicts"]] == ["cannot tell", "better", "better"]
    pyupgrade = next(variant for variant in again["variants"] if variant["name"] == "pyupgrade")
    assert pyupgrade["metrics"]["cost_usd_mean"] is None
    assert pyupgrade["counts"]["gradingErrors"] == 1
    assert again["gate"]["failed"] is True
    assert again["exitCode"] == 3


def test_a_report_is_named_only_when_it_is_there(alone, tmp_path):
    outcome = gate(alone.summary, ["never"])
    assert summary_document(alone.run, alone.summary, path=tmp_path, gate=outcome).to_print()["report"] is None
    page = tmp_path / "report" / "index.html"
    page.parent.mkdir()
    page.touch()
    document = summary_document(alone.run, alone.summary, path=tmp_path, gate=outcome).to_print()
    assert document["report"] == str(page)
    assert document["exitCode"] == 0


def test_the_policy_for_errors_and_the_health_of_graders_are_told(four):
    never = gate(four.summary, ["never"])
    document = summary_document(four.run, four.summary, path=four.folder.path, gate=never).to_print()
    assert document["errorPolicy"]["ruff"]["withoutScore"] == 2
    assert document["errorPolicy"]["ruff"]["policy"] == "exclude"
    assert [finding["kind"] for finding in document["health"]] == ["always_passes"]
    assert document["looks"] is None
    assert document["verdicts"][0]["enough"]["decisiveNeeded"] == 7
