from __future__ import annotations

import pytest

BASE = "name: x\ndatasets: [cases.yaml]\nclient: echo\n"


def judges(eval_, text: str):
    eval_.write("judge.py", "def j(*a): ...")
    return eval_.load(BASE + f"judges: {text}\n").plan.variants[0].judges


def test_all_written_forms_of_a_judge_mean_the_same(eval_):
    forms = [
        "[{name: s, command: {argv: [x, judge.py], files: [judge.py], secrets: [K]}, threshold: 0.6, reps: 3}]",
        "[{name: s, command: {argv: [x, judge.py]}, files: [judge.py], secrets: [K], threshold: 0.6, reps: 3}]",
        "[{name: s, type: command, argv: [x, judge.py], files: [judge.py], secrets: [K], threshold: 0.6, reps: 3}]",
        (
            "[{name: s, type: command, options: {argv: [x, judge.py], files: [judge.py]}, secrets: [K], "
            "threshold: 0.6, reps: 3}]"
        ),
    ]
    read = [judges(eval_, form)[0] for form in forms[:3]]
    assert read[0] == read[1] == read[2]
    assert read[0].identity().hash == read[2].identity().hash
    assert (read[0].options, read[0].threshold, read[0].reps, read[0].secrets) == (
        {"argv": ["x", "judge.py"]}, 0.6, 3, ["K"],
    )  # fmt: skip
    assert judges(eval_, forms[3])[0] == read[0]


def test_assertions_are_a_list_or_a_mapping_and_bare_values_are_the_main_option(eval_):
    as_list = eval_.load(BASE + "assertions: [{contains_text: [a, b]}, {toolCallCount: {max: 3}}, {isError: false}]\n")
    as_mapping = eval_.load(BASE + "assertions: {containsText: [a, b], toolCallCount: {max: 3}, isError: false}\n")
    assert as_list.plan.assertions == as_mapping.plan.assertions
    assert [(spec.type, spec.options) for spec in as_list.plan.assertions] == [
        ("contains_text", {"value": ["a", "b"]}),
        ("tool_call_count", {"max": 3}),
        ("is_error", {"value": False}),
    ]


def test_nested_options_are_read_in_both_spellings_and_user_data_in_them_is_not_touched(eval_):
    spec = eval_.load(
        BASE + "assertions:\n  - toolsTriggered: {calls: [{name: x, arguments: {camelKey: 1}}], order: strict}\n"
    ).plan.assertions[0]
    assert spec.options == {"calls": [{"name": "x", "arguments": {"camelKey": 1}}], "order": "strict"}


def test_a_local_callable_travels_without_being_listed(eval_):
    judge = judges(eval_, "[{name: s, python: './judge.py:j'}]")[0]
    assert [file.path for file in judge.files] == ["judge.py"]


def test_pairwise_judges_may_switch_the_second_order_off(eval_):
    spec = eval_.load(BASE + "pairwise_judges: [{name: d, smaller_diff: {}, swap: false}]\n").plan.pairwise_judges[0]
    assert (spec.type, spec.name, spec.swap, spec.options) == ("smaller_diff", "d", False, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "judges: [{name: s, comand: {argv: [x]}}]",
            "eval.yaml:4: judges[0].comand: unknown judge 'comand' (did you mean 'command'?)",
        ),
        (
            "judges: [{name: s, command: {argv: [x]}, thresold: 1}]",
            "eval.yaml:4: judges[0].thresold: unknown key 'thresold' (did you mean 'threshold'?)",
        ),
        (
            "judges: [{name: s, command: {argv: [x], argvv: [y]}}]",
            "eval.yaml:4: unknown key 'argvv' (did you mean 'argv'?)",
        ),
        (
            "judges: [{name: s, command: {argv: [x]}, threshold: 2}]",
            "judges[0].threshold: should be less than or equal to 1",
        ),
        ("judges: [{name: s}]", "judges[0]: names no judge: one of rubric, agentic"),
        ("judges: [{name: s, smaller_diff: {}}]", "'smaller_diff' is a pairwise judge, not a judge"),
        ("pairwise_judges: [{name: s, contains_text: a}]", "'contains_text' is an assertion, not a pairwise judge"),
        ("judges: [{a: {}, b: {}}]", "judges[0]: one grader for each entry, not 2: 'a', 'b'"),
        ("judges: [3]", "judges[0]: should be a name or a mapping"),
        ("judges: {a: 1}", "eval.yaml:4: judges: should be a list"),
        ("judges: [{name: s, command: {argv: [x]}}, {name: s, command: {argv: [y]}}]", "two judges are called 's'"),
        ("judges: [{command: {argv: [x]}}, {command: {argv: [y]}}]", "two judges are called 'command'"),
        (
            "judges: [{name: s, command: {argv: [x], files: [gone.py]}}]",
            "eval.yaml:4: judges[0].command.files[0]: no file 'gone.py' beside eval.yaml",
        ),
        ("judges: [{name: s, command: {argv: [x], files: [../up.py]}}]", "must be relative and stay inside the folder"),
        (
            "judges: [{name: s, command: {argv: [x], files: [/etc/passwd]}}]",
            "must be relative and stay inside the folder",
        ),
        ("judges: [{name: s, python: './gone.py:fn'}]", "no file './gone.py' beside eval.yaml"),
        ("judges: [{name: s, command: {argv: [x]}, secrets: ['not a name']}]", "judges[0].secrets[0]"),
        ("assertions: [{contains_text: }]", "eval.yaml:4: assertions[0].contains_text"),
        ("assertions: [{matches_pattern: '(x'}]", "eval.yaml:4: assertions[0].matches_pattern"),
        ("assertions: [{name: a, contains_text: x}, {name: a, contains_text: y}]", "two assertions are called 'a'"),
        ("assertions: [{contains_text: x, threshold: 0.5}]", "unknown key 'threshold'"),
        ("pairwise_judges: [{smaller_diff: 3}]", "pairwise_judges[0].smaller_diff: should be a mapping of options"),
    ],
)
def test_a_wrong_grader_gets_one_clear_line(eval_, text, expected):
    faults = eval_.faults(BASE + text + "\n")
    assert len(faults) == 1, faults
    assert expected in faults[0]


def test_a_model_judge_brings_its_key_and_the_hash_of_its_prompts(eval_):
    (spec,) = judges(eval_, "[{rubric: {model: 'openai:m', providers: ['anthropic:n'], maxTokens: 500}, retries: 2}]")
    assert spec.secrets == ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
    assert spec.prompt_hash
    assert spec.options == {"model": "openai:m", "providers": ["anthropic:n"], "max_tokens": 500}
    assert (spec.retries, spec.identity().model) == (2, "openai:m")


def test_a_panel_brings_those_of_its_members(eval_):
    (spec,) = judges(
        eval_,
        "[{name: p, panel: {members: [{rubric: {model: 'openai:m'}}, {python: './judge.py:j', threshold: 0.5}], "
        "vote: majority}, files: [judge.py]}]",
    )
    assert (spec.type, spec.name, spec.secrets) == ("panel", "p", ["OPENAI_API_KEY"])
    assert spec.prompt_hash
    assert [file.path for file in spec.files] == ["judge.py"]


def test_a_half_named_model_is_refused_with_its_place(eval_):
    eval_.write("judge.py", "def j(*a): ...")
    (fault,) = eval_.faults(BASE + "judges: [{rubric: {model: m}}]\n")
    assert "names no provider" in fault
    assert fault.startswith("eval.yaml:4: judges[0].rubric")
