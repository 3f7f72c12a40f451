from __future__ import annotations

import pytest

from mst.config.secrets import names_needed, read_secrets_file, secret_names, secrets_for, short_values
from mst.errors import ConfigError, SecretMissing

CONFIG = """
name: s
datasets: [cases.yaml]
client: command
client_options: {argv: [x], env: {TOKEN: {secret: CLIENT_TOKEN}}}
judges: [{name: j, command: {argv: [y], secrets: [JUDGE_KEY]}}]
secrets: [CLIENT_TOKEN, BOTH]
"""


def test_a_secrets_file_may_be_json_or_dotenv(tmp_path):
    path = tmp_path / "secrets"
    path.write_text('{"A": "1", "B": "two words"}')
    assert read_secrets_file(path) == {"A": "1", "B": "two words"}
    path.write_text(
        "# comment\n\nexport A=1\nB = two words # trailing\nC='# raw $x \\n'\n"
        'D="line\\nbreak \\"q\\"" # c\nE=a#b\nF=\nG=a=b==\n'
    )
    assert read_secrets_file(path) == {
        "A": "1",
        "B": "two words",
        "C": "# raw $x \\n",
        "D": 'line\nbreak "q"',
        "E": "a#b",
        "F": "",
        "G": "a=b==",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nplanted-value\n", ":2: not a line of the form NAME=value"),
        ("A='planted-value\n", ":1: not a line"),
        ('{"A": 1, "bad name": "x"}', "the value of 'A' is not a text"),
        ('{"A": "planted-value"', "not valid JSON"),
    ],
)
def test_a_bad_secrets_file_is_refused_without_repeating_a_value(tmp_path, text, expected):
    path = tmp_path / "secrets"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_secrets_file(path)
    assert expected in str(caught.value)
    assert "planted-value" not in str(caught.value)


def test_each_phase_needs_what_it_refers_to(eval_):
    resolved = eval_.load(CONFIG, cases="- {id: a, judges: [{name: own, command: {argv: [z], secrets: [OWN]}}]}\n")
    assert names_needed(resolved.plan, resolved.cases, "collect") == ["BOTH", "CLIENT_TOKEN"]
    assert names_needed(resolved.plan, resolved.cases, "grade") == ["BOTH", "JUDGE_KEY", "OWN"]


def test_the_client_options_of_a_case_count(eval_):
    resolved = eval_.load(CONFIG, cases="- {id: a, client_options: {env: {X: {secret: CASE_KEY}}}}\n")
    assert "CASE_KEY" in names_needed(resolved.plan, resolved.cases, "collect")


def test_a_missing_secret_is_refused_and_says_how_to_pass_it(eval_, monkeypatch, tmp_path):
    resolved = eval_.load(CONFIG)
    monkeypatch.setenv("JUDGE_KEY", "from-environment")
    monkeypatch.delenv("BOTH", raising=False)
    with pytest.raises(SecretMissing) as caught:
        secrets_for(resolved.plan, resolved.cases, "grade", None, local=False)
    both, judge = str(caught.value).splitlines()
    assert "'BOTH'" in both
    assert "--secrets-file" in both
    assert "environment" not in both
    assert "set in the environment here" in judge
    assert "from-environment" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_only_the_local_runner_reads_the_environment_and_the_file_wins(eval_, monkeypatch, tmp_path):
    resolved = eval_.load(CONFIG)
    monkeypatch.setenv("JUDGE_KEY", "from-environment")
    monkeypatch.setenv("BOTH", "from-environment")
    path = tmp_path / "secrets"
    path.write_text("BOTH=from-file\nUNRELATED=x\n")
    found = secrets_for(resolved.plan, resolved.cases, "grade", path, local=True)
    assert found == {"BOTH": "from-file", "JUDGE_KEY": "from-environment"}
    with pytest.raises(SecretMissing, match="JUDGE_KEY"):
        secrets_for(resolved.plan, resolved.cases, "grade", path, local=False)
    monkeypatch.delenv("JUDGE_KEY")
    with pytest.raises(
        SecretMissing, match=r"secret 'JUDGE_KEY' is needed by judge 'j': it is neither in .*secrets nor in the env"
    ):
        secrets_for(resolved.plan, resolved.cases, "grade", path, local=True)
    with pytest.raises(SecretMissing, match=r"pass it with --secrets-file FILE, or set it in the environment$"):
        secrets_for(resolved.plan, resolved.cases, "grade", None, local=True)


def test_a_missing_secret_says_who_needs_it_and_where_that_is_written(eval_, monkeypatch):
    config = """
name: s
datasets: [cases.yaml]
client: command
client_options:
  argv: [x]
  env:
    TOKEN: {secret: CLIENT_TOKEN}
variants: [{name: old}, {name: new}]
judges:
  - {name: style, rubric: {model: "openai:some-model"}}
pairwise_judges:
  - {name: nicer, rubric: {model: "openai:some-model"}}
  - name: keyed
    command: {argv: [y], secrets: [OWN_KEY]}
secrets: [BOTH, CLIENT_TOKEN]
"""
    for name in ("CLIENT_TOKEN", "OPENAI_API_KEY", "OWN_KEY", "BOTH", "CASE_KEY"):
        monkeypatch.delenv(name, raising=False)
    cases = "- {id: a, judges: [{name: own, command: {argv: [z], secrets: [CASE_KEY]}}]}\n"
    resolved = eval_.load(config, cases=cases)

    def said(work):
        with pytest.raises(SecretMissing) as caught:
            secrets_for(resolved.plan, resolved.cases, work, None, local=True, places=resolved.secret_places)
        return [
            line.partition(": pass it")[0].removeprefix(str(resolved.path)) for line in str(caught.value).splitlines()
        ]

    assert said("collect") == [
        ":15: secret 'BOTH' is needed",
        ":7: secret 'CLIENT_TOKEN' is needed by variant 'old' and variant 'new'",
    ]
    assert said("grade") == [
        ":15: secret 'BOTH' is needed",
        "secret 'CASE_KEY' is needed by judge 'own' of case 'a'",
        ":10: secret 'OPENAI_API_KEY' is needed by judge 'style' and pairwise judge 'nicer'",
        ":14: secret 'OWN_KEY' is needed by pairwise judge 'keyed'",
    ]


def test_who_needs_a_secret_is_not_listed_without_end(eval_, monkeypatch):
    monkeypatch.delenv("K", raising=False)
    variants = ", ".join(f"{{name: v{number}}}" for number in range(9))
    config = f"{CONFIG.replace('CLIENT_TOKEN', 'K')}variants: [{variants}]\n"
    resolved = eval_.load(config)
    with pytest.raises(SecretMissing, match=r"'K' is needed by variant 'v0', variant 'v1', variant 'v2' and others: "):
        secrets_for(resolved.plan, resolved.cases, "collect", None, local=True)


def test_references_are_found_at_any_depth():
    assert secret_names({"a": [{"b": {"secret": "X"}}, {"secret": "Y", "more": 1}], "secret": "no"}) == {"X"}


def test_an_empty_value_is_none_and_a_short_one_is_warned_about(eval_, monkeypatch, tmp_path):
    resolved = eval_.load(CONFIG)
    file = tmp_path / "s.env"
    file.write_text("JUDGE_KEY=\nBOTH=x\n")
    for name in ("JUDGE_KEY", "BOTH", "CLIENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SecretMissing, match=r"'JUDGE_KEY' is needed by judge 'j': it has an empty value in .*s\.env"):
        secrets_for(resolved.plan, resolved.cases, "grade", file, local=True)
    monkeypatch.setenv("JUDGE_KEY", "planted-value")
    values = secrets_for(resolved.plan, resolved.cases, "grade", file, local=True)
    assert values == {"JUDGE_KEY": "planted-value", "BOTH": "x"}
    [warning] = short_values(values)
    assert warning.startswith("secret 'BOTH' is under 4 characters long")
