"""One trial: what its record says, and whose fault it names."""

from __future__ import annotations

import asyncio
import base64

import pytest

from mst.clients.contract import ClientResult
from mst.clients.echo import Echo
from mst.collect import attempt as attempt_module
from mst.errors import ClientError
from mst.model.base import digest
from mst.model.case import Case, StageTimeouts, TrialLimits, Variant
from mst.model.transcript import Event, Transcript
from mst.model.trial import TrialRecord

ECHO = Variant(name="v", client="echo")


class Broken(Echo):
    """A client that fails as it is told."""

    def __init__(self, error):
        super().__init__(ECHO)
        self.error = error

    async def run(self, case, workspace, context):
        raise self.error


def test_echo_needs_no_folder_and_its_record_is_whole(bench):
    case = Case(id="c", dataset="d", input={"q": 1})
    collected = bench.trial(case, ECHO.model_copy(update={"input_template": "Q: {{input.q}}"}))
    record = collected.record
    assert collected.artifacts is None
    assert bench.left() == []
    assert (record.status, record.error, record.infrastructure_error) == ("completed", None, False)
    assert record.transcript.final_text == "Q: 1"
    assert record.diff is None
    assert record.case_digest == case.digest
    assert record.case_input_hash == digest({"q": 1})
    assert record.started_at.endswith("Z")
    assert TrialRecord.from_json(record.to_json(), "here") == record


def test_the_workspace_is_diffed_exported_and_gone(bench):
    case = bench.case({"mod.py": "import os\nx = 1\n", "keep": "k"})
    collected = bench.trial(case, bench.command("sed -i 1d mod.py; echo n > new; echo done"))
    record = collected.record
    assert record.status == "completed"
    assert record.transcript.final_text == "done"
    assert "-import os" in record.diff
    assert "+n" in record.diff
    assert [file.path for file in record.artifact_files] == ["keep", "mod.py", "new"]
    assert (collected.artifacts / "mod.py").read_text() == "x = 1\n"
    assert set(record.stages_ms) == {"setup", "client", "export", "cleanup"}
    assert record.exit_code == 0
    assert bench.left() == [collected.artifacts.name]
    collected.discard()
    collected.discard()
    assert bench.left() == []


def test_a_command_without_files_starts_in_an_empty_workspace(bench):
    collected = bench.trial(bench.case(), bench.command("ls -A; echo x > y"))
    assert collected.record.transcript.final_text == ""
    assert [file.path for file in collected.record.artifact_files] == ["y"]


def test_files_of_the_variant_lie_over_the_fixture_and_are_no_change(bench):
    variant = bench.command("cat a b").model_copy(update={"files": bench.refs({"b": "variant\n"})})
    record = bench.trial(bench.case({"a": "case\n", "b": "case\n"}), variant).record
    assert record.transcript.final_text == "case\nvariant"
    assert record.diff == ""


def test_set_up_is_part_of_what_is_given(bench):
    setup = [["{{python}}", "-c", "open('made','w').write('1\\n')"], ["rm", "gone"]]
    record = bench.trial(bench.case({"gone": "x"}, setup=setup), bench.command("echo 2 >> made")).record
    assert record.diff == "diff --git a/made b/made\n--- a/made\n+++ b/made\n@@ -1 +1,2 @@\n 1\n+2\n"


def test_a_fixture_may_be_a_repository_and_commits_hide_nothing(bench):
    setup = [["git", "init", "-q"], ["git", "add", "."], _commit("given")]
    case = bench.case({"a": "1\n"}, setup=setup)
    script = "echo 2 > a; git add .; " + " ".join(f"'{part}'" for part in _commit("mine"))
    record = bench.trial(case, bench.command(script)).record
    assert record.status == "completed", record.error
    assert "-1\n+2\n" in record.diff
    assert ".git/" not in record.diff
    assert any(file.path == ".git/HEAD" for file in record.artifact_files)


def _commit(message):
    return ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", "commit", "-q", "-m", message]


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ([["sh", "-c", "echo why >&2; exit 4"]], "setup command 1 (sh): ended with exit code 4: why"),
        ([["true"], ["no-such-program"]], "setup command 2 (no-such-program): no-such-program: no such program"),
        ([["cat", "{{input.nope}}"]], "no such key"),
    ],
)
def test_a_set_up_that_fails_is_the_environments_fault(bench, setup, said):
    collected = bench.trial(bench.case({"a": "1"}, setup=setup, input={"q": 1}), bench.command("echo ran > ran"))
    record = collected.record
    assert (record.status, record.infrastructure_error) == ("error", True)
    assert said in record.error
    assert record.client_diagnostics["failedStage"] == "setup"
    assert record.transcript is None
    assert collected.artifacts is None
    assert bench.left() == []


def test_a_set_up_over_its_time_is_the_environments_fault(bench):
    timeouts = StageTimeouts(setup_s=0.3)
    record = bench.trial(bench.case({"a": "1"}, setup=[["sleep", "60"]]), ECHO, timeouts=timeouts).record
    assert record.error_kind == "environment"
    assert "within 0.3 s" in record.error


def test_a_missing_fixture_file_is_the_environments_fault(bench):
    case = bench.case({"a": "1"})
    (bench.root / "set1/a").unlink()
    record = bench.trial(case, bench.command("true")).record
    assert (record.status, record.error_kind) == ("error", "environment")


def test_a_program_that_fails_is_scored_with_what_it_left(bench):
    collected = bench.trial(bench.case({"a": "1\n"}), bench.command("echo 2 > a; exit 7"))
    record = collected.record
    assert (record.status, record.error_kind, record.infrastructure_error) == ("error", "agent", False)
    assert record.is_scorable
    assert record.exit_code == 7
    assert (collected.artifacts / "a").read_text() == "2\n"


def test_at_its_time_limit_what_it_left_is_exported(bench):
    variant = bench.command("echo 2 > a; sleep 60", TrialLimits(time_s=0.7))
    collected = bench.trial(bench.case({"a": "1\n"}), variant)
    record = collected.record
    assert (record.status, record.limit_hit, record.error_kind) == ("completed", "timeout", None)
    assert "+2" in record.diff
    assert (collected.artifacts / "a").read_text() == "2\n"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientError("server gone"), "environment"),
        (ClientError("bad call", "harness"), "harness"),
        (ZeroDivisionError("bug"), "harness"),
        (TimeoutError("of something else"), "harness"),
    ],
)
def test_a_client_that_raises_is_never_a_failed_answer(bench, error, kind):
    record = bench.trial(bench.case(), ECHO, client=Broken(error)).record
    assert (record.status, record.error_kind, record.infrastructure_error) == ("error", kind, True)
    assert not record.is_scorable
    assert str(error) in record.error


def test_half_a_character_anywhere_in_what_a_client_says_can_be_stored(bench):
    class Halves(Echo):
        async def run(self, case, workspace, context):
            event = Event(kind="message", name="a\ud800", output={"\udfff": ["\ud83d\ude00", None]})
            transcript = Transcript(final_text="b\ud800", events=[event], evidence="structured")
            return ClientResult(transcript=transcript, metadata={"model": "\ud800"})

    record = bench.trial(Case(id="c", dataset="d", input="q"), ECHO, client=Halves(ECHO)).record
    assert TrialRecord.from_json(record.to_json(), "here") == record
    assert record.transcript.final_text == "b\ufffd"
    assert record.transcript.events[0].output == {"\ufffd": ["\U0001f600", None]}
    assert record.client_metadata == {"model": "\ufffd"}
    error = bench.trial(Case(id="c", dataset="d", input="q"), ECHO, client=Broken(OSError("\udc80"))).record.error
    assert "\ufffd" in error


def test_a_client_that_ignores_its_limit_is_ended(bench, monkeypatch):
    monkeypatch.setattr(attempt_module, "_OVERDUE_S", 0.1)

    class Stuck(Echo):
        async def run(self, case, workspace, context):
            await asyncio.Event().wait()

    variant = ECHO.model_copy(update={"trial_limits": TrialLimits(time_s=0.1)})
    record = bench.trial(bench.case(), variant, client=Stuck(ECHO)).record
    assert record.error_kind == "harness"
    assert "did not keep its time limit" in record.error


def test_nothing_to_score_is_incomplete(bench):
    record = bench.trial(bench.case(), Variant(name="oracle", client="oracle")).record
    assert (record.status, record.error_kind, record.infrastructure_error) == ("incomplete", None, False)
    assert not record.is_scorable


def test_the_oracle_gets_the_solution_and_its_diff(bench):
    case = bench.case({"a": "1\n", "b": "1\n"}, solution=bench.refs({"b": "2\n", "c": "3\n"}))
    collected = bench.trial(case, Variant(name="oracle", client="oracle"))
    assert (collected.artifacts / "a").read_text() == "1\n"
    assert (collected.artifacts / "b").read_text() == "2\n"
    assert "-1\n+2\n" in collected.record.diff
    assert "+3\n" in collected.record.diff


def test_noop_leaves_the_fixture(bench):
    collected = bench.trial(bench.case({"a": "1\n"}), Variant(name="noop", client="noop"))
    assert collected.record.diff == ""
    assert [file.path for file in collected.record.artifact_files] == ["a"]


def test_answers_are_nowhere_near_the_program(bench):
    case = bench.case(
        {"a": "1"}, solution=bench.refs({"s": "THE-ANSWER"}), expected={"answer": "THE-ANSWER"}
    ).model_copy(update={"checks": bench.refs({"checks.py": "THE-ANSWER"})[0]})
    record = bench.trial(case, bench.command("grep -r THE-ANSWER .. ; env; true")).record
    assert "THE-ANSWER" not in record.transcript.final_text


def test_teardown_runs_after_the_export_and_never_masks_the_result(bench):
    case = bench.case({"a": "1"}, teardown=[["sh", "-c", "cat b; rm b; exit 3"]])
    collected = bench.trial(case, bench.command("echo made > b"))
    assert collected.record.status == "completed"
    assert "teardown command 1" in collected.record.client_diagnostics["cleanup"]
    assert (collected.artifacts / "b").exists()
    assert bench.left() == [collected.artifacts.name]


def test_teardown_runs_when_the_client_failed(bench):
    mark = bench.root / "torn-down"
    case = bench.case({"a": "1"}, teardown=[["touch", str(mark)]])
    bench.trial(case, ECHO, client=Broken(ClientError("gone")))
    assert mark.exists()


def test_an_export_that_fails_leaves_no_part_behind(bench):
    timeouts = StageTimeouts(export_s=-1)
    collected = bench.trial(bench.case({"a": "1"}), bench.command("true"), timeouts=timeouts)
    record = collected.record
    assert (record.status, record.error_kind) == ("error", "environment")
    assert record.transcript is not None
    assert collected.artifacts is None
    assert bench.left() == []


def test_secrets_are_gone_from_record_and_artifacts(bench):
    secret = "tok-/0123456789+abc"
    script = 'echo "$T"; echo "$T" >&2; echo "$T" > out; printf %s "$T" | base64 > b64; exit 9'
    variant = bench.command(script, env={"T": {"secret": "TOKEN"}})
    collected = bench.trial(bench.case({"a": "1"}), variant, secrets={"TOKEN": secret})
    encoded = base64.b64encode(secret.encode())
    stored = collected.record.to_json() + b"".join(p.read_bytes() for p in collected.artifacts.iterdir())
    assert secret.encode() not in stored
    assert encoded not in stored
    assert collected.record.transcript.final_text == "[redacted]"
    assert "[redacted]" in collected.record.client_diagnostics["stderr"]


def test_a_secret_that_is_a_word_of_ours_breaks_no_record(bench):
    class Skilled(Echo):
        async def run(self, case, workspace, context):
            events = [Event(kind="message", name="assistant", output={"none": "a message"})]
            return ClientResult(transcript=Transcript(events=events, final_text="none"))

    record = bench.trial(bench.case(), ECHO, client=Skilled(ECHO), secrets={"A": "message", "B": "none"}).record
    assert record.transcript.final_text == "[redacted]"
    assert record.transcript.events[0].output == {"[redacted]": "a [redacted]"}
    assert (record.transcript.events[0].kind, record.transcript.evidence) == ("message", "none")
    assert TrialRecord.from_json(record.to_json(), "here") == record


def test_a_secret_without_value_is_said(bench):
    record = bench.trial(bench.case(), bench.command("true", env={"T": {"secret": "TOKEN"}})).record
    assert record.error_kind == "environment"
    assert "TOKEN" in record.error


def test_a_client_gets_only_the_secrets_that_it_names(bench):
    seen = {}

    class Looks(Echo):
        def secrets_needed(self):
            return ["A"]

        async def run(self, case, workspace, context):
            seen.update(context.secrets)
            return ClientResult(transcript=Transcript())

    bench.trial(bench.case(), ECHO, client=Looks(ECHO), secrets={"A": "aaaaaa", "B": "bbbbbb"})
    assert seen == {"A": "aaaaaa"}


def test_loaded_skills_are_listed(bench):
    class Skilled(Echo):
        async def run(self, case, workspace, context):
            return ClientResult(transcript=Transcript(events=[Event(kind="skill", name="s")], evidence="observed"))

    record = bench.trial(bench.case(), ECHO, client=Skilled(ECHO)).record
    assert record.skill_loads == ["s"]
    assert record.transcript_evidence == "observed"


def test_a_scratch_root_that_is_gone_is_the_environments_fault(bench):
    bench.scratch_root.rmdir()
    record = bench.trial(bench.case({"a": "1"}), ECHO).record
    assert record.error_kind == "environment"
    assert "no folder for the trial" in record.error
