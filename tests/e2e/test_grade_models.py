"""Judges that ask a model, from the command line to the summary, here and in shard workers: keys and costs."""

from __future__ import annotations

import pytest

from mst.runs.folder import RunFolder
from mst.runs.locate import regrades_of
from mst.testing.commandline import run_mst
from mst.testing.modelscript import EXPIRED_KEY, Call, Reply, preference, verdict
from mst.testing.modelserver import model_server
from mst.testing.stored_run import collect_run, write_echo_eval

KEY = "sk" + "-judge-0123456789abcdef"  # put together, so that no key stands in the tree


def script(call: Call) -> Reply:
    if "second:\n" in call.prompt:
        first = call.prompt.index("first:\n")
        return preference(
            "first" if "please" in call.prompt[first : call.prompt.index("second:\n")] else "second", strength=1
        )
    return verdict(1.0 if "\nplease" in call.prompt else 0.0, f"the key is {call.key}")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    with model_server(script) as server:
        model = {"model": "m", "base_url": server.openai_url, "api_key": "JUDGE_KEY"}
        config = write_echo_eval(
            home / "eval",
            cases=6,
            assertions=[],
            judges=[{"name": "polite", "rubric": {**model, "rubric": "Does it say please?"}}],
            pairwise_judges=[{"name": "better", "rubric": model}],
            pricing={"m": {"input": 1.0, "output": 2.0}},
            rate_limits={"providers": {"openai": {"concurrent": 2}}},
        )
        (home / "keys.env").write_text(f"JUDGE_KEY={KEY}\n")
        yield home, collect_run(config, home / ".mst-results"), server


@pytest.mark.parametrize(
    "runner", [[], ["--runner", "process", "--runner-option", "shards=2"]], ids=["local", "process"]
)
def test_verdicts_costs_and_preferences_arrive_and_the_key_stays_out(stored, runner):
    home, source, server = stored
    server.tokens.clear()
    server.keys.clear()
    server.most_at_once = 0
    said = run_mst("grade", source.path, *runner, "--secrets-file", home / "keys.env", "--fail-on", "never", cwd=home)
    assert said.code == 0, said.err
    assert set(server.keys) == {KEY}
    assert server.most_at_once <= 2
    folder = regrades_of(source)[-1]
    summary = folder.summary()
    assert [variant.pass_rate for variant in summary.variants] == [0.0, 1.0]
    assert summary.variants[1].pairwise[0].summary.candidate_wins == 6
    used = [summary.telemetry.total_judge_usage, summary.telemetry.pairwise_judge_usage]
    assert sum(usage.input_tokens for usage in used) == server.tokens["in"]
    expected = (server.tokens["in"] + 2 * server.tokens["out"]) / 1e6
    assert sum(usage.estimated_cost_usd for usage in used) == pytest.approx(expected)
    everything = b"".join(path.read_bytes() for path in folder.path.rglob("*") if path.is_file())
    assert KEY.encode() not in everything
    assert b"the key is [redacted]" in everything
    assert {grader.prompt_hash is not None for grader in folder.run().graders} == {True}


def test_a_key_that_is_missing_is_refused_before_anything_is_asked(stored):
    home, source, server = stored
    server.statuses.clear()
    said = run_mst("grade", source.path, "--runner", "process", cwd=home, env={"JUDGE_KEY": KEY})
    assert said.code == 2
    assert "JUDGE_KEY" in said.err
    assert "--secrets-file" in said.err
    assert not server.statuses


def test_a_key_that_expired_leaves_a_partial_grading_that_can_be_resumed(stored):
    home, source, server = stored

    server.script = lambda _call: EXPIRED_KEY
    said = run_mst("grade", source.path, "--secrets-file", home / "keys.env", cwd=home)
    assert said.code == 3, said.err
    folder = regrades_of(source)[-1]
    server.script = script
    again = run_mst(
        "grade", folder.run_id, "--resume", "--secrets-file", home / "keys.env", "--fail-on", "never", cwd=home
    )
    assert again.code == 0, again.err
    assert RunFolder(folder.path).run().phases.grade == "complete"
