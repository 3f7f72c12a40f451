from __future__ import annotations

import asyncio

import pytest

from mst.config.files import IndexedFiles
from mst.errors import ConfigError, GraderError, InvariantError
from mst.judges.panel import Panel
from mst.model.base import Model
from mst.model.case import GraderSpec
from mst.testing.judge import closing, make_context, make_subject, write_files
from mst.testing.modelscript import EXPIRED_KEY, verdict
from mst.testing.modelserver import model_server

JUDGE = """
import json, os, sys
json.load(sys.stdin)
if sys.argv[1] == "environment":
    print(json.dumps({"score": 1, "reasoning": " ".join(sorted(os.environ))}))
elif sys.argv[1] == "skips":
    print(json.dumps({"skipped": True}))
elif sys.argv[1] == "own":
    print(json.dumps({"score": 0, "pass": True}))
else:
    print(json.dumps({"score": float(sys.argv[1])}))
"""


def program(argument: str, **settings):
    return {"command": {"argv": ["{{python}}", "j.py", argument]}, **settings}


@pytest.fixture
def ask(tmp_path):
    files = IndexedFiles()
    refs = write_files(tmp_path / "judge", {"j.py": JUDGE}, files)

    def call(*members, secrets=None, threshold=0.7, **options):
        judge = Panel(
            GraderSpec(type="panel", threshold=threshold, options={"members": list(members), **options}, files=refs)
        )
        context = make_context(tmp_path, files, secrets=secrets or {})
        return asyncio.run(closing(judge, judge.evaluate(make_subject(tmp_path), context)))

    return call


def test_the_score_is_the_mean_and_every_member_is_kept(ask):
    found = ask(program("1", name="strict"), program("0.5", name="mild"))
    assert (found.score, found.passed, found.skipped) == (0.75, None, False)
    assert {name: (part.score, part.passed) for name, part in found.sub_scores.items()} == {
        "strict": (1.0, True),
        "mild": (0.5, False),
    }
    assert found.metadata["agree"] is False


@pytest.mark.parametrize(
    ("scores", "passed"), [(("1", "1", "0"), True), (("1", "0", "0"), False), (("1", "0"), False), (("1", "1"), True)]
)
def test_a_majority_is_more_than_half(ask, scores, passed):
    assert ask(*map(program, scores), vote="majority").passed is passed


def test_a_member_may_have_its_own_threshold_or_its_own_pass(ask):
    found = ask(program("0.3", threshold=0.2), program("own"), program("0.3"), vote="majority")
    assert [part.passed for part in found.sub_scores.values()] == [True, True, False]
    assert found.passed


def test_members_that_skip_are_left_out(ask):
    assert ask(program("skips"), program("1")).score == 1
    assert ask(program("skips"), program("skips")).skipped


def test_one_without_a_verdict_leaves_the_panel_without_one(ask):
    with pytest.raises(GraderError, match="1 of 2 members have a verdict: bad: "):
        ask(program("1"), program("not-a-number", name="bad"))


def test_unless_fewer_are_needed_and_then_it_is_told(ask):
    found = ask(program("1"), program("not-a-number", name="bad"), needed=1)
    assert found.score == 1
    assert "bad" in found.metadata["failed"]
    assert found.usage is None


def test_members_get_only_their_own_secrets(ask):
    found = ask(
        program("environment", name="a", secrets=["ONE"]),
        program("environment", name="b", secrets=["TWO"]),
        secrets={"ONE": "1", "TWO": "2"},
    )
    assert "ONE" in found.sub_scores["a"].reasoning
    assert "TWO" not in found.sub_scores["a"].reasoning
    assert "ONE" not in found.sub_scores["b"].reasoning


def test_models_of_several_providers_with_their_tokens(ask, models):
    with model_server(verdict(1)) as server:
        members = [{"rubric": {**models.endpoint(server, dialect)}} for dialect in ("openai", "anthropic")]
        found = ask(*members, secrets=models.secrets)
    assert found.usage.input_tokens == server.tokens["in"]
    assert list(found.sub_scores) == ["rubric", "rubric.2"]
    assert {call.dialect for call in server.calls} == {"openai", "anthropic"}


def test_a_fault_that_all_members_share_keeps_its_kind(ask, models):
    with model_server(EXPIRED_KEY) as server, pytest.raises(GraderError) as raised:
        ask(*({"rubric": models.endpoint(server)} for _ in range(2)), secrets=models.secrets)
    assert raised.value.kind == "auth"


def test_what_members_ask_for_belongs_to_the_panel():
    options = {
        "members": [
            {"rubric": {"model": "openai:a"}},
            {"rubric": {"model": "anthropic:b"}},
            program("1", secrets=["S"]),
        ]
    }
    assert Panel.secrets_of(options) == ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "S"]
    assert Panel.prompt_hash_of(options) is not None
    assert Panel.prompt_hash_of({"members": [program("1"), program("0")]}) is None


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([program("1")], "at least 2"),
        ([program("1"), {"panel": {}}], "a panel is no member"),
        ([program("1"), {"rubrik": {}}], "rubrik"),
        ([program("1"), {"rubric": {"modle": "x"}}], "modle"),
        ([program("1", name="a"), program("1", name="a")], "two members are called 'a'"),
        ([program("1"), {"rubric": {}, "command": {}}], "one judge for each member"),
    ],
)
def test_a_wrong_panel_is_refused_with_the_reason(ask, members, says):
    with pytest.raises(ConfigError, match=says):
        ask(*members)


def test_more_needed_than_there_are_is_refused(ask):
    with pytest.raises(ConfigError, match="there are 2 members"):
        ask(program("1"), program("1"), needed=3)


def test_the_preflight_names_every_member_that_cannot_work(tmp_path):
    members = [{"command": {"argv": ["gone-a"]}, "name": "a"}, {"command": {"argv": ["gone-b"]}, "name": "b"}]
    judge = Panel(GraderSpec(type="panel", options={"members": members}))
    with pytest.raises(GraderError, match=r"a: gone-a.*b: gone-b"):
        asyncio.run(judge.preflight(make_context(tmp_path)))


def test_members_beside_one_that_breaks_by_a_fault_of_ours_are_ended(tmp_path, monkeypatch):
    ended = []

    class Member:
        Options = Model

        def __init__(self, spec):
            self.kind = spec.type

        async def evaluate(self, subject, context):
            try:
                if self.kind == "breaks":
                    raise InvariantError("broken")
                await asyncio.Event().wait()
            finally:
                ended.append(self.kind)

    monkeypatch.setattr("mst.judges.panel.lookup", lambda kind, name: Member)
    panel = Panel(GraderSpec(type="panel", options={"members": ["waits", "breaks"]}))

    async def go():
        with pytest.raises(InvariantError, match=r"^broken$"):
            await panel.evaluate(make_subject(tmp_path), make_context(tmp_path))
        return len(asyncio.all_tasks())

    assert asyncio.run(go()) == 1
    assert sorted(ended) == ["breaks", "waits"]
