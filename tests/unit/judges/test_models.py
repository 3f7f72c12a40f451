"""What goes over the wire to a scripted model server, and what comes of every way that a provider can fail."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mst.errors import GraderError
from mst.judges.rubric import RubricJudge
from mst.model.transcript import Usage
from mst.providers.endpoints import Endpoint
from mst.providers.limits import Limits, Slot
from mst.providers.spending import priced
from mst.testing.judge import make_subject
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
    verdict,
)
from mst.testing.modelserver import model_server

DIALECTS = ("openai", "anthropic", "google")


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch):
    monkeypatch.setattr("mst.providers.attempts.FIRST_WAIT_S", 0.01)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_a_verdict_with_its_tokens_and_who_answered(models, dialect):
    with model_server(verdict(0.75, "good enough")) as server:
        found = models.ask(server, dialect)
    assert (found.score, found.reasoning, found.provider, found.model) == (0.75, "good enough", dialect, "m")
    assert found.usage.input_tokens == server.tokens["in"] > 100
    assert found.usage.output_tokens == server.tokens["out"] > 0
    (call,) = server.calls
    assert (call.model, call.key, call.dialect) == ("m", models.secrets["JUDGE_KEY"], dialect)
    assert "the answer" in call.prompt
    assert call.schema["tool"] == "verdict"


@pytest.mark.parametrize("output", ["native", "prompted"])
@pytest.mark.parametrize("text", ['{"score": 1, "reasoning": "x"}', '```json\n{"score": 1, "reasoning": "x"}\n```'])
def test_other_ways_of_asking_for_the_form(models, output, text):
    with model_server(Reply(text=text)) as server:
        assert models.ask(server, output=output).score == 1
    if output == "prompted":
        assert '"score"' in server.calls[0].system


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unknown_tokens_stay_unknown(models, dialect):
    with model_server(Reply(value={"score": 1, "reasoning": "x"}, usage=False)) as server:
        assert models.ask(server, dialect).usage is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (EXPIRED_KEY, "auth", "HTTP 401: The key has expired."),
        (NO_MONEY, "quota", "HTTP 402: Insufficient credits."),
        (BROKEN, "server", "HTTP 500"),
        (OVERLOADED, "server", "HTTP 503"),
        (failure(400, "No such parameter."), "request", "HTTP 400: No such parameter."),
        (failure(404, "No model m."), "request", "HTTP 404"),
        (Reply(refusal="I would rather not."), "refusal", "declined"),
        (Reply(value={"score": 1, "reasoning": "x"}, cut=True), "answer", "max_tokens"),
        (Reply(text="It is fine."), "answer", "form"),
        (Reply(value={"score": 1.5, "reasoning": "x"}), "answer", "score"),
        (Reply(value={"score": True, "reasoning": "x"}), "answer", "score"),
        (Reply(value={"reasoning": "x"}), "answer", "score"),
        (Reply(value={"score": 1, "reasoning": "x", "pass": True}), "answer", "pass"),
        (Reply(value={"score": 1, "reasoning": "x"}, truncated=True), "transport", ""),
    ],
)
def test_every_failure_is_a_grading_error_of_its_kind_asked_once(models, dialect, reply, kind, says):
    with model_server(reply) as server, pytest.raises(GraderError) as raised:
        models.ask(server, dialect)
    assert raised.value.kind == kind
    assert says in str(raised.value)
    assert models.secrets["JUDGE_KEY"] not in str(raised.value)
    assert sum(server.statuses.values()) == 1


CALLED = {"id": "1", "type": "function", "function": {"name": "verdict", "arguments": '{"score": 1, "reasoning": "x"}'}}


def openai_answer(call=CALLED, **changes):
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **changes}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("body", [b"", b"<html>", b"7", b"[" * 100_000])
def test_a_body_that_is_no_answer_is_an_answer_that_cannot_be_used(models, dialect, body):
    with model_server(Reply(body=body)) as server, pytest.raises(GraderError) as raised:
        models.ask(server, dialect)
    assert raised.value.kind == "answer"
    assert sum(server.statuses.values()) == 1


@pytest.mark.parametrize(
    "body",
    [
        openai_answer(choices=[]),
        openai_answer(choices=[None]),
        openai_answer(choices="none"),
        openai_answer(created=10**30),
        openai_answer({"id": "1", "type": "custom", "custom": {"name": "verdict", "input": "x"}}),
    ],
)
def test_an_answer_that_the_library_trips_over_is_one_that_cannot_be_read(models, body):
    with model_server(Reply(body=body)) as server, pytest.raises(GraderError, match="cannot be read") as raised:
        models.ask(server)
    assert raised.value.kind == "answer"


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ([{"score": 0, "reasoning": "x"}, {"score": 1, "reasoning": "x"}], "2 verdicts that differ"),
        (['{"score": 0, "score": 1, "reasoning": "x"}'], "'score' stands twice"),
        ([{"score": 1, "reasoning": "x" * 300_000}], "more than 262144 characters"),
    ],
)
def test_a_verdict_of_which_nobody_can_say_what_it_is_counts_as_none(models, tools, says):
    reply = Reply(tools=[ToolUse("verdict", arguments) for arguments in tools])
    with model_server(reply) as server, pytest.raises(GraderError, match=says) as raised:
        models.ask(server)
    assert raised.value.kind == "answer"


def test_a_verdict_that_is_given_twice_is_one(models):
    reply = Reply(tools=[ToolUse("verdict", {"score": 1, "reasoning": "x"})] * 2)
    with model_server(reply) as server:
        assert models.ask(server).score == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_under_status_200_is_what_it_says(models, dialect):
    told = {"error": {"message": "slow down", "code": 429}}
    with model_server(in_turn([Reply(body=told)], Reply(body={"error": {"message": "no room"}}))) as server:
        models.context["timeout_s"] = 60
        with pytest.raises(GraderError, match="HTTP 200 with an error: no room") as raised:
            models.ask(server, dialect)
    assert raised.value.kind == "server"
    assert "HTTP 429: slow down" in str(raised.value)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_without_end_is_left_at_the_bound(models, monkeypatch, dialect, packed):
    monkeypatch.setattr("mst.providers.whole.ANSWER_BYTES", 10_000)
    endless = Reply(body=b" " * 1_000_000, packed=packed)
    with model_server(endless) as server, pytest.raises(GraderError, match="more than 10000 bytes") as raised:
        models.ask(server, dialect)
    assert raised.value.kind == "answer"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_half_a_character_in_a_providers_words_can_be_written(models, dialect):
    with model_server(failure(400, "no \ud800 here")) as server, pytest.raises(GraderError, match="no \ufffd here"):
        models.ask(server, dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stall_ends_at_the_time_limit(models, dialect):
    models.context["timeout_s"] = 0.5
    started = time.monotonic()
    with model_server(Reply(stall_s=60)) as server, pytest.raises(GraderError, match=r"did not end within 0\.5 s") as r:
        models.ask(server, dialect)
    assert r.value.kind == "timeout"
    assert time.monotonic() - started < 20


def test_no_server_at_all_is_a_transport_fault(models):
    with model_server(verdict()) as server:
        pass
    with pytest.raises(GraderError) as raised:
        models.ask(server)
    assert raised.value.kind == "transport"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_429_waits_as_told_without_spending_a_retry(models, dialect):
    started = time.monotonic()
    with model_server(in_turn([too_many(0.4)], verdict())) as server:
        found = models.ask(server, dialect, retries=0)
    assert found.score == 1
    assert time.monotonic() - started >= 0.4
    assert "429" in found.metadata["attempts"][0]
    assert server.statuses == {429: 1, 200: 1}


def test_a_429_storm_ends_as_a_rate_limit(models):
    with model_server(too_many(0.01)) as server, pytest.raises(GraderError, match="waiting 8 times as told") as raised:
        models.ask(server)
    assert raised.value.kind == "rate_limit"
    assert server.statuses[429] == 9


def test_a_429_for_an_hour_is_not_waited_for(models):
    with model_server(too_many(3600)) as server, pytest.raises(GraderError) as raised:
        models.ask(server)
    assert raised.value.kind == "rate_limit"
    assert server.statuses[429] == 1


@pytest.mark.parametrize("bad", [BROKEN, Reply(value={}, truncated=True)])
def test_transport_faults_are_retried_as_often_as_allowed(models, bad):
    with model_server(in_turn([bad, bad], verdict())) as server:
        assert models.ask(server, retries=2).score == 1
    with model_server(in_turn([bad, bad], verdict())) as server, pytest.raises(GraderError, match="after 1 retries"):
        models.ask(server, retries=1)


def test_an_answer_out_of_form_is_not_asked_again(models):
    with model_server(Reply(value={"score": 2, "reasoning": "x"})) as server, pytest.raises(GraderError):
        models.ask(server, retries=5)
    assert len(server.calls) == 1


@pytest.mark.parametrize("reply", [BROKEN, NO_MONEY, Reply(stall_s=60)])
def test_the_next_provider_answers_and_is_recorded(models, reply):
    models.context["timeout_s"] = 1.0
    with model_server(reply) as broken, model_server(verdict(0.5)) as well:
        found = models.ask(broken, providers=[models.endpoint(well, "anthropic", "second")])
    assert (found.score, found.provider, found.model) == (0.5, "anthropic", "second")
    assert len(found.metadata["attempts"]) == 1


@pytest.mark.parametrize("reply", [EXPIRED_KEY, failure(400, "no"), Reply(refusal="no"), Reply(text="no")])
def test_a_refused_key_or_an_answer_is_not_hidden_by_asking_elsewhere(models, reply):
    with model_server(reply) as first, model_server(verdict()) as second, pytest.raises(GraderError):
        models.ask(first, providers=[models.endpoint(second)])
    assert not second.calls


def test_all_providers_fail_and_the_last_one_has_the_last_word(models):
    with model_server(BROKEN) as one, model_server(OVERLOADED) as two, pytest.raises(GraderError) as raised:
        models.ask(one, providers=[models.endpoint(two)])
    assert "HTTP 503" in str(raised.value)
    assert "HTTP 500" in str(raised.value)


def test_a_provider_that_quotes_the_key_does_not_get_it_into_the_message(models):
    key = models.secrets["JUDGE_KEY"]
    models.context["redact"] = lambda text: text.replace(key, "[redacted]")
    with model_server(failure(401, f"bad key {key}")) as server, pytest.raises(GraderError) as raised:
        models.ask(server)
    assert key not in str(raised.value)
    assert "[redacted]" in str(raised.value)


def test_costs_come_from_the_configs_prices(models):
    models.context["pricing"] = {"m": {"input": 2.0, "output": 10.0}}
    with model_server(verdict()) as server:
        usage = models.ask(server).usage
    expected = (server.tokens["in"] * 2 + server.tokens["out"] * 10) / 1e6
    assert usage.estimated_cost_usd == pytest.approx(expected)


def test_cached_tokens_have_prices_of_their_own():
    usage = Usage(input_tokens=100, output_tokens=10, cache_read_input_tokens=60, cache_creation_input_tokens=20)
    endpoint = Endpoint(model="openai:m")
    prices = {"openai:m": {"input": 1e6, "output": 2e6, "cache_read": 0.5e6, "cache_write": 3e6}}
    assert priced(usage, endpoint, prices).estimated_cost_usd == 20 + 20 + 30 + 60
    prices["openai:m"].update(cache_read=None, cache_write=None)
    assert priced(usage, endpoint, prices).estimated_cost_usd == 20 + 20 + 60 + 20


@pytest.mark.parametrize("pricing", [{}, {"other": {"input": 1, "output": 1}}, {"m": {"input": 1}}])
def test_an_unknown_price_leaves_the_cost_unknown(pricing):
    usage = Usage(input_tokens=1, output_tokens=1)
    assert priced(usage, Endpoint(model="openai:m"), pricing).estimated_cost_usd is None
    assert priced(None, Endpoint(model="openai:m"), {"m": {"input": 1, "output": 1}}) is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_preflight_costs_nothing_unless_it_probes(models, dialect):
    with model_server(EXPIRED_KEY) as server:
        models.preflight(server, dialect)
        assert not server.statuses
        with pytest.raises(GraderError, match="The key has expired") as raised:
            models.preflight(server, dialect, probe=True)
    assert raised.value.kind == "auth"


def test_the_preflight_names_every_key_that_is_missing(models):
    models.secrets = {}
    with model_server(verdict()) as server, pytest.raises(GraderError, match="JUDGE_KEY, OPENAI_API_KEY"):
        models.preflight(server, providers=["openai:gpt"])


def test_the_ambient_environment_is_no_source_of_keys(models, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-ambient")
    with model_server(verdict()) as server:
        for dialect in DIALECTS:
            models.ask(server, dialect, api_key=None)
    assert "sk-ambient" not in server.keys


def test_a_renewed_key_is_used_from_the_next_call_on_also_by_one_that_waited_for_its_turn(models):
    started, go_on = asyncio.Event(), asyncio.Event()

    class Renewing(Limits):
        def named(self, name):
            return self

        @asynccontextmanager
        async def slot(self, tokens):
            started.set()
            await go_on.wait()
            yield Slot(tokens)

    async def scene(judge, context):
        subject = make_subject(models.folder)
        await judge.evaluate(subject, context)
        waiting = asyncio.create_task(judge.evaluate(subject, replace(context, limits=Renewing())))
        await started.wait()
        models.secrets["JUDGE_KEY"] = "renewed"
        go_on.set()
        await waiting
        await judge.evaluate(subject, context)

    first = models.secrets["JUDGE_KEY"]
    with model_server(verdict(1)) as server:
        judge = RubricJudge(models.spec(server))
        models.run(judge, scene(judge, models.made_context()))
    assert [call.key for call in server.calls] == [first, "renewed", "renewed"]


def test_limits_of_the_provider_hold_between_calls(models):
    models.context["limits"] = Limits({"openai": {"per_minute": 120}})
    with model_server(verdict()) as server:
        for _ in range(3):
            models.ask(server)
    assert server.last_at - server.first_at >= 0.7  # two waits of 0.5 s, less the slack
