"""The llm client over HTTP against a scripted model: its answers, its limits, and every way that a provider fails."""

from __future__ import annotations

import time

import pytest

from mst.clients.llm import Llm
from mst.errors import ConfigError
from mst.model.case import Case, TrialLimits, Variant
from mst.providers.limits import Limits
from mst.testing.client import trial_records
from mst.testing.modelscript import (
    BROKEN,
    EXPIRED_KEY,
    NO_MONEY,
    OVERLOADED,
    Reply,
    ToolUse,
    failure,
    in_turn,
    too_many,
    turns,
)
from mst.testing.modelserver import model_server

DIALECTS = ("openai", "anthropic", "google")
KEY = "the-models-key-0123456789"


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch):
    monkeypatch.setattr("mst.providers.attempts.FIRST_WAIT_S", 0.01)


def variant(server, dialect="openai", *, limits=None, **options):
    url = server.openai_url if dialect == "openai" else server.url
    given = {"provider": dialect, "base_url": url, "key": {"secret": "K"}, **options}
    return Variant(name="v", client="llm", model="m", client_options=given, trial_limits=TrialLimits(**(limits or {})))


def ask(tmp_path, variant, prompt="What is on the menu?", **more):
    (record,) = trial_records(
        Llm, variant, [Case(id="c", dataset="d", input=prompt)], tmp_path, secrets={"K": KEY}, **more
    )
    return record


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_answers_with_its_words_and_tokens(tmp_path, dialect):
    with model_server(Reply(text="Soup.")) as server:
        record = ask(tmp_path, variant(server, dialect, system="You are a waiter."))
    assert record.status == "completed", record
    transcript = record.transcript
    assert (transcript.final_text, transcript.evidence, transcript.error) == ("Soup.", "structured", None)
    assert [(event.kind, event.name, event.output) for event in transcript.events] == [
        ("message", "assistant", "Soup.")
    ]
    assert transcript.usage.input_tokens == server.tokens["in"] > 0
    assert transcript.usage.output_tokens == server.tokens["out"] > 0
    assert transcript.usage.turns == 1
    (call,) = server.calls
    assert (call.dialect, call.model, call.key, call.system) == (dialect, "m", KEY, "You are a waiter.")
    assert call.prompt == "What is on the menu?"
    assert (record.client_metadata["provider"], record.client_metadata["finishReason"]) == (dialect, "stop")
    assert KEY not in record.to_json().decode()


def test_settings_are_sent(tmp_path):
    given = {"temperature": 0.25, "top_p": 0.5, "max_tokens": 77, "seed": 5, "stop": ["END"], "extra_body": {"x": 1}}
    with model_server(Reply(text="Soup.")) as server:
        ask(tmp_path, variant(server, **given))
    body = server.calls[0].body
    sent = {name: body.get(name) for name in ("temperature", "top_p", "seed", "stop", "x")}
    assert sent == {"temperature": 0.25, "top_p": 0.5, "seed": 5, "stop": ["END"], "x": 1}
    assert 77 in {body.get("max_tokens"), body.get("max_completion_tokens")}


def test_a_renewed_key_is_used_by_the_next_trial(tmp_path):
    keys = ["first-key-0123", "renewed-key-4567"]
    secrets = {}
    cases = [Case(id=f"c{number}", dataset="d", input="What is on the menu?") for number in range(2)]
    with model_server(Reply(text="Soup.")) as server:
        trial_records(
            Llm,
            variant(server),
            cases,
            tmp_path,
            secrets=secrets,
            between=lambda number: secrets.update(K=keys[number]),
        )
    assert [call.key for call in server.calls] == keys


def test_a_local_server_needs_no_key(tmp_path):
    with model_server(Reply(text="Soup.")) as server:
        asked = Variant(name="v", client="llm", model="llama:8b", client_options={"base_url": server.openai_url})
        assert Llm(asked).secrets_needed() == []
        assert ask(tmp_path, asked).transcript.final_text == "Soup."
    assert server.calls[0].model == "llama:8b"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unknown_tokens_stay_unknown(tmp_path, dialect):
    with model_server(Reply(text="Soup.", usage=False)) as server:
        usage = ask(tmp_path, variant(server, dialect), pricing={"m": {"input": 1, "output": 1}}).transcript.usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated_cost_usd, usage.turns) == (None, None, None, 1)


def test_costs_come_from_the_configs_prices(tmp_path):
    with model_server(Reply(text="Soup.")) as server:
        record = ask(tmp_path, variant(server), pricing={"m": {"input": 2.0, "output": 10.0}})
    expected = (server.tokens["in"] * 2 + server.tokens["out"] * 10) / 1e6
    assert record.client_usage.estimated_cost_usd == pytest.approx(expected)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (EXPIRED_KEY, "environment", "HTTP 401: The key has expired."),
        (NO_MONEY, "environment", "HTTP 402: Insufficient credits."),
        (BROKEN, "environment", "HTTP 500"),
        (OVERLOADED, "environment", "HTTP 503"),
        (failure(404, "No model m."), "harness", "HTTP 404"),
        (failure(400, "No such parameter."), "harness", "No such parameter."),
        (Reply(text="Soup.", truncated=True), "environment", "m: "),
    ],
)
def test_without_an_answer_there_is_nothing_to_grade(tmp_path, dialect, reply, kind, says):
    with model_server(reply) as server:
        record = ask(tmp_path, variant(server, dialect, retries=0))
    assert (record.status, record.error_kind, record.infrastructure_error) == ("error", kind, True)
    assert says in record.error
    assert KEY not in record.to_json().decode()
    assert sum(server.statuses.values()) == 1


def test_a_provider_that_quotes_the_key_does_not_get_it_into_the_record(tmp_path):
    with model_server(failure(401, "x" * 280 + KEY)) as server:
        record = ask(tmp_path, variant(server))
    assert KEY[:8] not in record.to_json().decode()


def test_no_server_at_all_is_the_environments_fault(tmp_path):
    with model_server(Reply(text="x")) as server:
        pass
    record = ask(tmp_path, variant(server, retries=0))
    assert record.error_kind == "environment"
    assert f"(at {server.openai_url})" in record.error


def test_too_many_requests_are_waited_out_as_told_and_spend_no_retry(tmp_path):
    started = time.monotonic()
    with model_server(in_turn([too_many(0.4)], Reply(text="Soup."))) as server:
        record = ask(tmp_path, variant(server, retries=0))
    assert record.transcript.final_text == "Soup."
    assert time.monotonic() - started >= 0.4
    assert server.statuses == {429: 1, 200: 1}
    assert "429" in record.client_diagnostics["requestsAgain"][0]


def test_waiting_is_not_the_programs_time(tmp_path):
    with model_server(in_turn([too_many(1.5)], Reply(text="Soup."))) as server:
        record = ask(tmp_path, variant(server, limits={"time_s": 1.4}))
    assert (record.limit_hit, record.transcript.final_text) == (None, "Soup.")
    assert record.agent_duration_ms < 1400


@pytest.mark.parametrize("bad", [BROKEN, OVERLOADED, Reply(text="x", truncated=True)])
def test_transport_faults_are_asked_again_as_often_as_allowed(tmp_path, bad):
    with model_server(in_turn([bad, bad], Reply(text="Soup."))) as server:
        record = ask(tmp_path, variant(server, retries=2))
    assert record.transcript.final_text == "Soup."
    assert len(record.client_diagnostics["requestsAgain"]) == 2
    assert record.transcript.usage.turns == 1


def test_a_stall_is_asked_again_after_the_requests_own_bound(tmp_path):
    with model_server(in_turn([Reply(stall_s=60)], Reply(text="Soup."))) as server:
        record = ask(tmp_path, variant(server, request_timeout_s=0.5, retries=1))
    assert record.transcript.final_text == "Soup."


def test_a_stall_ends_at_the_time_limit_and_is_graded_as_it_stands(tmp_path):
    with model_server(Reply(stall_s=60)) as server:
        record = ask(tmp_path, variant(server, limits={"time_s": 1.0}))
    assert (record.status, record.limit_hit, record.error_kind) == ("completed", "timeout", None)
    assert record.transcript.error == "ended at its time limit of 1 s"
    assert record.transcript.usage.turns == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_declining_is_an_answer(tmp_path, dialect):
    with model_server(Reply(refusal="I would rather not.")) as server:
        record = ask(tmp_path, variant(server, dialect))
    assert (record.status, record.error_kind, record.limit_hit) == ("completed", None, None)
    assert record.transcript.error == "the model declined to answer"
    assert record.client_metadata["finishReason"] == "content_filter"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_that_is_cut_off_is_graded_and_says_so(tmp_path, dialect):
    with model_server(Reply(text="Soup and", cut=True)) as server:
        record = ask(tmp_path, variant(server, dialect, max_tokens=3))
    assert (record.status, record.transcript.final_text) == ("completed", "Soup and")
    assert record.transcript.error == "the model's last answer ended at max_tokens (3)"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_that_nobody_offered_is_answered_as_an_error_and_the_model_goes_on(tmp_path, dialect):
    script = turns(Reply(text="I look.", tools=[ToolUse("menu", {"day": "today"})]), Reply(text="I do not know."))
    with model_server(script) as server:
        record = ask(tmp_path, variant(server, dialect))
    kinds = [(event.kind, event.name, event.is_error) for event in record.transcript.events]
    assert kinds == [
        ("message", "assistant", None),
        ("tool_call", "menu", True),
        ("message", "assistant", None),
    ]
    assert record.transcript.events[1].output == "there is no tool 'menu'; there are: none"
    assert record.transcript.final_text == "I do not know."
    assert "there is no tool" in server.calls[1].results[0]
    assert record.transcript.usage.turns == 2


def test_a_loop_without_end_is_ended_at_the_turns(tmp_path):
    with model_server(Reply(tools=[ToolUse("again")])) as server:
        record = ask(tmp_path, variant(server, limits={"turns": 4}))
    assert (record.status, record.limit_hit) == ("completed", "turns")
    assert record.transcript.usage.turns == 4
    assert len(server.calls) == 4
    with model_server(Reply(tools=[ToolUse("again")])) as server:
        record = ask(tmp_path, variant(server, max_turns=3))
    assert (record.limit_hit, len(server.calls)) == ("turns", 3)


def test_other_limits_end_it_too(tmp_path):
    talks = Reply(text="word " * 40, tools=[ToolUse("again")])
    for limits, hit in (({"tokens": 100}, "tokens"), ({"cost_usd": 0.001}, "cost"), ({"output_bytes": 500}, "output")):
        with model_server(talks) as server:
            record = ask(tmp_path, variant(server, limits=limits), pricing={"m": {"input": 10, "output": 10}})
        assert (record.status, record.limit_hit) == ("completed", hit), record
        assert 1 < len(server.calls) < 5
    with model_server(Reply(tools=[ToolUse("a"), ToolUse("b")])) as server:
        record = ask(tmp_path, variant(server, max_tool_calls=3))
    assert record.limit_hit == "turns"
    assert len([event for event in record.transcript.events if event.kind == "tool_call"]) == 3


def test_a_limit_of_cost_without_a_price_is_refused(tmp_path):
    with model_server(Reply(text="Soup.")) as server:
        record = ask(tmp_path, variant(server, limits={"cost_usd": 1}))
    assert record.error_kind == "harness"
    assert "no price of 'm' is known; give it under 'pricing'" in record.error
    assert not server.calls


def test_a_conversation_that_no_longer_fits_is_the_programs_fault(tmp_path):
    too_long = failure(400, "This model's maximum context length is 8 tokens.", code="context_length_exceeded")
    with model_server(in_turn([Reply(tools=[ToolUse("again")])], too_long)) as server:
        record = ask(tmp_path, variant(server))
    assert (record.status, record.error_kind, record.infrastructure_error) == ("error", "agent", False)
    assert len(record.transcript.events) == 1


def test_requests_wait_for_their_turn_under_the_configs_limits(tmp_path):
    limits = Limits({"gate": {"concurrent": 1}})
    cases = [Case(id=f"c{number}", dataset="d", input="x") for number in range(6)]
    with model_server(turns(Reply(tools=[ToolUse("again")]), Reply(text="done", stall_s=0.05))) as server:
        asked = variant(server, rate_limit="gate")
        records = trial_records(Llm, asked, cases, tmp_path, secrets={"K": KEY}, at_once=True, limits=limits)
    assert [record.transcript.usage.turns for record in records] == [2] * 6
    assert server.most_at_once == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": None}, "needs a model, as 'model: openai:NAME'"),
        ({"model": "gpt-x"}, "names no provider"),
        ({"model": "openai:x", "client_options": {"temprature": 1}}, "client_options.temprature: unknown key"),
        ({"model": "openai:x", "client_options": {"key": "plain text"}}, "client_options.key"),
        ({"model": "google:x", "client_options": {"provider": "google", "extra_body": {"a": 1}}}, "not sent to Google"),
        ({"model": "openai:x", "servers": {"a": {"comand": "x"}}}, "servers.a.com"),
    ],
)
def test_faults_are_said_with_their_variant(given, says):
    with pytest.raises(ConfigError, match=says) as raised:
        Llm(Variant(name="v-1", client="llm", **given))
    assert "'v-1'" in str(raised.value)


def test_secrets_are_those_of_provider_servers_and_variant():
    servers = {
        "a": {"command": "x", "env": {"A": {"secret": "S2"}}},
        "b": {"url": "http://x", "headers": {"H": {"secret": "S3"}}},
    }
    made = Llm(Variant(name="v", client="llm", model="anthropic:c", servers=servers, env={"B": {"secret": "S1"}}))
    assert made.secrets_needed() == ["ANTHROPIC_API_KEY", "S1", "S2", "S3"]


def test_preflight_finds_programs_and_packages_that_are_missing(monkeypatch):
    made = Llm(Variant(name="v", client="llm", model="openai:m", servers={"a": {"command": "no-such-server"}}))
    assert made.preflight() == ["server a: no-such-server: no such program on PATH; install it or give its path"]
    monkeypatch.setitem(__import__("sys").modules, "mst.providers.library", None)
    assert made.preflight()[1].endswith("pip install 'mst[judges]'")
