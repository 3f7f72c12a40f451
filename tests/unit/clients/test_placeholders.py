"""Placeholders are filled in once, by argument."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mst.clients.placeholders import Values, render_prompt, substitute, substitute_data
from mst.errors import ClientError

VALUES = Values(input={"a": {"b": 1}, "text": "{{python}}"}, prompt="the prompt", workspace=Path("/w"))


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{workspace}}/x", "/w/x"),
        ("{{ input }}!", "the prompt!"),
        ("{{input.a.b}}", "1"),
        ("{{input.a}}", '{"b": 1}'),
        ("{{python}}", sys.executable),
        ("{{other}} {x} {{}}", "{{other}} {x} {{}}"),
        ("$(rm -rf /) `x`", "$(rm -rf /) `x`"),
    ],
)
def test_known_names_are_filled_in_and_others_stay(text, filled):
    assert substitute(text, VALUES) == filled


def test_what_was_filled_in_is_not_looked_at_again():
    assert substitute("{{input.text}}", VALUES) == "{{python}}"


def test_a_key_that_the_input_lacks_is_an_error_that_names_it():
    with pytest.raises(ClientError, match=r"input\.nope") as caught:
        substitute("{{input.nope}}", VALUES)
    assert caught.value.kind == "harness"


def test_without_a_workspace_its_placeholder_is_an_error():
    with pytest.raises(ClientError, match="no workspace"):
        substitute("{{workspace}}", Values(input="", prompt=""))


def test_texts_inside_data_are_filled_in_and_keys_stay():
    data = {"{{input}}": ["{{input}}", 1, None, {"x": "{{workspace}}"}]}
    assert substitute_data(data, VALUES) == {"{{input}}": ["the prompt", 1, None, {"x": "/w"}]}


@pytest.mark.parametrize(
    ("template", "given", "prompt"),
    [
        (None, "hi", "hi"),
        ("{{input}}", {"b": 1, "a": "ü"}, '{"b": 1, "a": "ü"}'),
        ("Do: {{input}}.", "it", "Do: it."),
        ("{{input.q}}?", {"q": "why"}, "why?"),
    ],
)
def test_a_prompt_is_the_input_through_the_template(template, given, prompt):
    assert render_prompt(template, given) == prompt
