"""What is wrong with a value, in words of those who write configs."""

import pytest

from mst.errors import ConfigError

HEAD = "name: x\ndatasets: [cases.yaml]\nclient: echo\n"


@pytest.mark.parametrize(
    ("written", "faults"),
    [
        ("trials: 1.5", ["eval.yaml:4: trials: should be a whole number, not a fraction"]),
        ("redact_stored_responses: 1", ["eval.yaml:4: redact_stored_responses: should be true or false, not a number"]),
        ("variants: {a: 1}", ["eval.yaml:4: variants: should be a list, not a mapping"]),
        ("trial_limits: {time_s: 5m}", ["eval.yaml:4: trial_limits.time_s: should be a number, not a text"]),
        (
            "assertions: [{contains_text: 3}]",
            ["eval.yaml:4: assertions[0].contains_text: should be a text or a list, not a number"],
        ),
        (
            "assertions: [{contains_text: {value: 3}}]",
            ["eval.yaml:4: assertions[0].contains_text.value: should be a text or a list, not a number"],
        ),
        (
            "assertions: [{contains_text: [ok, 3]}]",
            ["eval.yaml:4: assertions[0].contains_text[1]: should be a text, not a number"],
        ),
        (
            "assertions: [{within_limits: {duration_s: fast}}]",
            ["eval.yaml:4: assertions[0].within_limits.duration_s: should be a number, not a text"],
        ),
        ("assertions: [{json_path: {equals: 1}}]", ["eval.yaml:4: assertions[0].json_path.path: missing"]),
    ],
)
def test_a_wrong_type_is_said_once_and_without_words_of_the_schema(eval_, written, faults):
    with pytest.raises(ConfigError) as caught:
        eval_.load(HEAD + written + "\n")
    assert [fault.rpartition("/")[2] for fault in caught.value.faults] == faults


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("assertions: [{equals: {}}\ntrials: 1", "5: not valid YAML: a comma or a closing bracket is missing"),
        (" trials: 1", "4: not valid YAML: "),
        ("variants:\n  - 1\n - 2", "6: not valid YAML: a key is missing, a quote ends too early, or this is indented"),
        ("description: why: because", "4: not valid YAML: a ': ' stands where none may: put a text that holds one in"),
        ("description: 'it's'", "4: not valid YAML: a key is missing, a quote ends too early"),
        ("description: @me", "4: not valid YAML: a text that begins with this character must be in quotes"),
        ("description: *", "4: not valid YAML: "),
    ],
)
def test_a_slip_in_yaml_is_said_with_what_to_do(eval_, written, says):
    with pytest.raises(ConfigError) as caught:
        eval_.load(HEAD + written + "\n")
    (fault,) = caught.value.faults
    assert f"eval.yaml:{says}" in fault


@pytest.mark.parametrize("answer", ["3", "2.5", "true", "'3'"])
def test_a_plain_value_alone_is_the_expected_answer(eval_, answer):
    alone = eval_.load(HEAD, cases=f"[{{id: a, expected: {answer}}}]")
    written = eval_.load(HEAD, cases=f"[{{id: a, expected: {{answer: {answer}}}}}]")
    assert alone.cases.get("a").expected == written.cases.get("a").expected


def test_a_variable_of_the_shell_in_the_environment_gets_a_warning(eval_):
    resolved = eval_.load(
        HEAD
        + "env: {KEY: $MY_KEY, PLACE: here, PRICE: 5$}\n"
        + "servers: {search: {url: 'http://127.0.0.1:1', headers: {Key: '${SEARCH_KEY}'}}}\n"
    )
    assert [warning for warning in resolved.warnings if "$" in warning] == [
        f"variant 'default': {place} is the text {text!r} as it stands; for a value from outside write {instead}"
        for place, text, instead in (
            ("servers.search.headers.Key", "${SEARCH_KEY}", "{secret: SEARCH_KEY}"),
            ("env.KEY", "$MY_KEY", "{secret: MY_KEY}"),
        )
    ]
