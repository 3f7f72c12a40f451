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
