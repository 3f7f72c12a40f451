"""The mcp client on servers at a URL: real ones over streamable HTTP, refused, dead in the middle, come back."""

from __future__ import annotations

import pytest

from mst.clients.mcp import Mcp
from mst.model.case import Case, TrialLimits, Variant
from mst.testing.client import trial_records
from mst.testing.mcpserver import everything_server, mcp_server_at
from mst.testing.servers import free_ports

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]
KEY = "open-sesame-0123456789"


@pytest.fixture(scope="module", params=["events", "json"])
def either(request, tmp_path_factory):
    """A server that answers with event streams, then one that answers with JSON."""
    env = {"ANSWERS": request.param, "GUARD_KEY": KEY}
    with mcp_server_at(tmp_path_factory.mktemp("server"), env=env) as server:
        yield server


def variant(url, *, headers=None, time_s=60.0, **options):
    server = {"url": url, **({"headers": headers} if headers else {})}
    limits = TrialLimits(time_s=time_s, output_bytes=1_000_000)
    return Variant(name="v", client="mcp", servers={"far": server}, client_options=options, trial_limits=limits)


def collect(tmp_path, variant, *inputs, **more):
    """The records of one trial after another, all through one client."""
    cases = [Case(id=f"c{number}", dataset="d", input=given) for number, given in enumerate(inputs)]
    return trial_records(Mcp, variant, cases, tmp_path, **more)


def say(text):
    return {"tool": "say", "arguments": {"text": text}}


def test_calls_are_made_and_answered_as_over_stdio(tmp_path, either):
    calls = {"calls": [say("one"), {"tool": "fail"}, {"tool": "no-such-tool"}, say("two")]}
    (record,) = collect(tmp_path, variant(either.url), calls)
    assert record.status == "completed", record
    assert record.transcript.evidence == "structured"
    events = record.transcript.events
    assert [event.is_error for event in events] == [False, True, True, False]
    assert "fail" in events[1].output
    assert {(event.server, event.source) for event in events} == {("far", "mcp")}
    assert record.transcript.final_text == "two"


def test_headers_take_secrets_and_the_record_holds_none(tmp_path, either):
    headers = {"Authorization": {"secret": "TOKEN"}, "X-Team": "blue"}
    asked = {"calls": [{"tool": "header", "arguments": {"name": name}} for name in ("X-Team", "Authorization")]}
    (record,) = collect(
        tmp_path, variant(either.locked_url, headers=headers), asked, secrets={"TOKEN": f"Bearer {KEY}"}
    )
    assert record.status == "completed", record
    assert record.transcript.events[0].output == "blue"
    assert KEY not in record.to_json().decode()
    assert "redacted" in record.transcript.events[1].output.lower()


def test_a_refused_key_is_said_with_its_status(tmp_path, either):
    headers = {"Authorization": {"secret": "TOKEN"}}
    (record,) = collect(
        tmp_path, variant(either.locked_url, headers=headers), say("x"), secrets={"TOKEN": "Bearer old"}
    )
    assert (record.error_kind, record.infrastructure_error) == ("environment", True)
    assert "HTTP 401" in record.error
    assert "headers" in record.error


def test_nobody_there_is_the_environments_fault(tmp_path):
    (record,) = collect(tmp_path, variant(f"http://127.0.0.1:{free_ports(1)[0]}/mcp"), say("x"))
    assert record.error_kind == "environment"
    assert "server far: " in record.error
    assert "no connection" in record.error


def test_a_url_without_an_mcp_server_is_told(tmp_path, either):
    (record,) = collect(tmp_path, variant(either.url + "/nothing"), say("x"))
    assert record.error_kind == "environment"
    assert "HTTP 404" in record.error


@pytest.mark.parametrize("answers", ["events", "json"])
def test_a_server_that_dies_in_the_middle_leaves_no_answer(tmp_path, answers):
    with mcp_server_at(tmp_path, env={"ANSWERS": answers}) as server:
        (record,) = collect(tmp_path, variant(server.url), {"calls": [say("one"), {"tool": "die"}, say("never")]})
    assert record.error_kind == "environment"
    assert "ended during die" in record.error


@pytest.mark.parametrize("lifetime", ["trial", "shard"])
def test_a_server_that_comes_back_serves_the_next_trial(tmp_path, lifetime):
    """Nobody connects again under a trial, the next one does: its session is a fresh one."""
    with mcp_server_at(tmp_path) as first:
        again = []

        def restart(number):
            if number == 1:
                first.kill()
            if number == 2:
                second = mcp_server_at(tmp_path, port=first.port)
                second.__enter__()
                again.append(second)

        try:
            records = collect(
                tmp_path,
                variant(first.url, server_lifetime=lifetime),
                say("one"),
                say("two"),
                say("three"),
                between=restart,
            )
        finally:
            for server in again:
                server.__exit__(None, None, None)
    assert [record.error_kind for record in records] == [None, "environment", None]
    assert records[2].transcript.final_text == "three"


def test_at_the_time_limit_the_call_is_given_up_and_told(tmp_path, either):
    (record,) = collect(tmp_path, variant(either.url, time_s=2), {"calls": [say("one"), {"tool": "hang"}]})
    assert (record.status, record.limit_hit) == ("completed", "timeout")
    assert [event.name for event in record.transcript.events] == ["say", "hang"]
    assert record.transcript.events[1].output is None


def test_an_answer_without_end_does_not_fill_the_memory(tmp_path, either):
    flood = {"tool": "flood", "arguments": {"size": 3_000_000}}
    (record,) = collect(tmp_path, variant(either.url), flood)
    assert record.error_kind == "environment", record.transcript
    assert "flood" in record.error


def test_many_trials_share_one_session(tmp_path, either):
    asked = variant(either.url, server_lifetime="shard")
    records = collect(tmp_path, asked, *(say(str(number)) for number in range(8)), at_once=True)
    assert [record.transcript.final_text for record in records] == [str(number) for number in range(8)]


@pytest.mark.slow
def test_the_protocols_reference_server_answers_over_http_and_stdio(tmp_path):
    program = everything_server()
    calls = {
        "calls": [
            {"tool": "echo", "arguments": {"message": "hello"}},
            {"tool": "get-sum", "arguments": {"a": 2, "b": 3}},
            {"tool": "get-sum", "arguments": {"a": "x"}},
        ]
    }
    stdio = Variant(name="v", client="mcp", servers={"far": {"command": program, "args": ["stdio"]}})
    (near,) = collect(tmp_path, stdio, calls)
    with mcp_server_at(tmp_path, argv=[program, "streamableHttp"]) as server:
        (far,) = collect(tmp_path, variant(server.url), calls)
    for record in (near, far):
        assert record.status == "completed", record
        outputs = [(event.output, event.is_error) for event in record.transcript.events]
        assert "hello" in outputs[0][0]
        assert "5" in outputs[1][0]
        assert outputs[2][1] is True
    assert [e.output for e in near.transcript.events] == [e.output for e in far.transcript.events]
