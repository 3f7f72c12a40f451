"""Coding agents as judges, for real, against a model on loopback that answers by script, with and without a sandbox."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import sys
import time

import pytest

from mst.errors import GraderError
from mst.judges.agentic import AgenticJudge
from mst.judges.pairwise_agentic import AgenticPairwise
from mst.model.case import Case, GraderSpec
from mst.providers.limits import Limits
from mst.testing.agentmodel import INPUT_TOKENS, OUTPUT_TOKENS, ToolUse, Turn, agent_model, steps
from mst.testing.agents import AGENTS, CACHE, KEYS, MODELS, bash, ending, install_agents, program
from mst.testing.judge import make_context, make_subject

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(600)]

KEY = "the-real-key-0123456789abcdef"


@pytest.fixture(scope="module", autouse=True)
def _agents():
    install_agents()


def look(name, path):
    if name == "claude-code":
        return ToolUse(name="Grep", arguments={"pattern": ".", "path": path, "output_mode": "content"})
    return bash(name, f"cat {path}")


def says(name, value):
    if name == "claude-code":
        return Turn(tools=[ToolUse(name="StructuredOutput", arguments=value)])
    return ending(name, json.dumps(value))


def judging(name, value, *, paths=("response.md",)):
    """A model that reads before it judges."""
    return steps(*(Turn(text="I read.", tools=[look(name, path)]) for path in paths), says(name, value))


def sandboxed(kind):
    if kind == "bwrap" and shutil.which("bwrap") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("bubblewrap is not installed")
    return {"none": {}, "bwrap": {"sandbox": {"kind": "bwrap", "read": [str(CACHE), sys.base_prefix]}}}[kind]


def spec(name, model, kind="none", **options):
    given = {
        "runtime": name,
        "model": MODELS[name],
        "program": program(name),
        "base_url": model.url,
        **sandboxed(kind),
        **options,
    }
    return GraderSpec(type="agentic", name="q", options=given, secrets=[KEYS[name]])


def context(tmp_path, name, **more):
    return make_context(tmp_path, secrets={KEYS[name]: KEY}, timeout_s=200.0, **more)


def score(tmp_path, name, model, kind="none", *, subject=None, limits=None, **options):
    judge = AgenticJudge(spec(name, model, kind, **options))
    asked = context(tmp_path, name, limits=limits or Limits())

    async def run():
        await judge.preflight(asked)
        return await judge.evaluate(subject or make_subject(tmp_path, text="soup is 7"), asked)

    return asyncio.run(run())


def everything_sent(model):
    return json.dumps([asked.body for asked in model.asked])


@pytest.mark.parametrize("kind", ["none", "bwrap"])
@pytest.mark.parametrize("name", AGENTS)
def test_it_reads_the_trial_and_its_answer_is_the_verdict(tmp_path, name, kind):
    with agent_model(judging(name, {"reasoning": "it fits", "score": 0.8}), key=KEY) as model:
        finding = score(tmp_path, name, model, kind)
    assert (finding.score, finding.reasoning, finding.passed) == (0.8, "it fits", None)
    assert "soup is 7" in everything_sent(model), "the agent read nothing"
    assert KEY not in everything_sent(model)
    assert finding.model == MODELS[name]
    assert finding.usage.input_tokens >= INPUT_TOKENS
    assert finding.usage.output_tokens >= OUTPUT_TOKENS
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("name", AGENTS)
def test_it_compares_two_trials_without_knowing_whose_they_are(tmp_path, name):
    baseline = make_subject(tmp_path, variant="baseline-variant", text="short")
    candidate = make_subject(tmp_path, variant="candidate-variant", text="long and good")
    answer = {
        "reasoning": "more",
        "preference": "first",
        "strength": 0.5,
        "dimensions": {"style": {"preference": "second", "reasoning": "r"}},
    }
    with agent_model(judging(name, answer, paths=("first/response.md", "second/response.md")), key=KEY) as model:
        judge = AgenticPairwise(spec(name, model, dimensions=["style"]))
        choice = asyncio.run(judge.compare(baseline, candidate, context(tmp_path, name), candidate_first=True))
    assert (choice.preference, choice.strength) == ("candidate", 0.5)
    assert choice.dimensions["style"]["preference"] == "baseline"
    assert choice.usage is not None
    sent = everything_sent(model)
    assert "long and good" in sent
    assert "short" in sent
    assert "baseline-variant" not in sent
    assert "candidate-variant" not in sent


@pytest.mark.parametrize("name", AGENTS)
def test_criteria_are_scored_one_by_one(tmp_path, name):
    case = Case(id="c", dataset="d", input="x", expected={"criteria": ["is short", "is right"]})
    part = {"score": 1, "reasoning": "yes"}
    answer = {"reasoning": "r", "score": 0, "sub_scores": {"1": part, "2": {"score": 0.5, "reasoning": "half"}}}
    with agent_model(judging(name, answer), key=KEY) as model:
        finding = score(tmp_path, name, model, subject=make_subject(tmp_path, case=case))
    assert finding.score == 0.75
    assert sorted(finding.sub_scores) == ["1", "2"]


@pytest.mark.parametrize("name", ["codex", "mini-swe-agent"])
def test_in_a_sandbox_it_cannot_change_what_it_reads(tmp_path, name):
    script = steps(
        Turn(text="I try.", tools=[bash(name, "echo x > response.md; cat response.md")]),
        says(name, {"reasoning": "r", "score": 1}),
    )
    with agent_model(script, key=KEY) as model:
        assert score(tmp_path, name, model, "bwrap").score == 1
    assert "soup is 7" in everything_sent(model)
    assert "Read-only file system" in everything_sent(model)


def test_claude_code_is_given_tools_that_read_and_no_others(tmp_path):
    with agent_model(judging("claude-code", {"reasoning": "r", "score": 1}), key=KEY) as model:
        score(tmp_path, "claude-code", model)
    assert set(model.asked[0].tools) == {"Read", "Grep", "Glob", "StructuredOutput"}


def test_codex_and_claude_code_are_held_to_the_form_of_the_answer(tmp_path):
    for name in ("claude-code", "codex"):
        with agent_model(judging(name, {"reasoning": "r", "score": 1}), key=KEY) as model:
            score(tmp_path, name, model)
        assert '"reasoning", "score"' in everything_sent(model), name


@pytest.mark.parametrize("name", AGENTS)
def test_words_that_are_no_verdict_are_an_error_not_a_score(tmp_path, name):
    with agent_model(steps(ending(name, "It is quite good.")), key=KEY) as model, pytest.raises(GraderError) as raised:
        score(tmp_path, name, model, max_turns=6)
    assert raised.value.kind in {"answer", "grader"}


# Claude Code asks with a wrong key again and again, for minutes
SLOW_TO_GIVE_UP = pytest.param("claude-code", marks=pytest.mark.long)


@pytest.mark.parametrize("name", [SLOW_TO_GIVE_UP if name == "claude-code" else name for name in AGENTS])
def test_a_key_that_the_provider_rejects_is_named_as_such(tmp_path, name):
    with agent_model(steps(ending(name)), key="another-key") as model, pytest.raises(GraderError) as raised:
        score(tmp_path, name, model)
    assert raised.value.kind == "auth", raised.value
    assert KEY not in str(raised.value)
    assert str(tmp_path) not in str(raised.value)


@pytest.mark.parametrize("name", AGENTS)
def test_it_ends_at_its_limit_of_calls(tmp_path, name):
    again = steps(Turn(text="Again.", tools=[look(name, "response.md")]))
    with agent_model(again, key=KEY) as model, pytest.raises(GraderError, match="limit of 3 calls of the model"):
        score(tmp_path, name, model, max_turns=3)


def test_tokens_are_priced_where_the_agent_names_no_cost(tmp_path):
    with agent_model(judging("codex", {"reasoning": "r", "score": 1}), key=KEY) as model:
        judge = AgenticJudge(spec("codex", model))
        prices = {"gpt-5": {"input": 1.0, "output": 10.0}}
        asked = context(tmp_path, "codex", pricing=prices)
        usage = asyncio.run(judge.evaluate(make_subject(tmp_path), asked)).usage
    cost = (usage.input_tokens * 1.0 + usage.output_tokens * 10.0) / 1_000_000
    assert usage.estimated_cost_usd == pytest.approx(cost)


def test_its_calls_keep_the_providers_rate_limit(tmp_path):
    value = {"reasoning": "r", "score": 1}
    script = judging("codex", value, paths=("response.md",) * 4)
    came = []

    def timed(asked):
        came.append(time.monotonic())
        return script(asked)

    with agent_model(timed, key=KEY) as model:
        score(tmp_path, "codex", model, limits=Limits({"openai": {"per_minute": 60}}))
    assert len(came) == 5
    assert all(later - earlier >= 0.9 for earlier, later in itertools.pairwise(came)), came
