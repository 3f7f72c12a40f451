from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from mst.errors import ConfigError, GraderError
from mst.grade.assertions import ASSERTIONS
from mst.grade.assertions import similarity as module
from mst.model.case import Case, GraderSpec
from mst.testing.judge import make_context, make_subject

SIMILARITY = ASSERTIONS["similarity"]


@pytest.fixture
def grade(tmp_path):
    def run(text, answer=None, **options):
        case = Case(id="c", dataset="d", expected={} if answer is None else {"answer": answer})
        subject = make_subject(tmp_path, text=text, case=case)
        made = SIMILARITY.Options.model_validate(options)
        return asyncio.run(SIMILARITY.run(subject, made, GraderSpec(type="similarity"), make_context(tmp_path)))

    return run


def test_the_same_meaning_in_other_words_is_nearer_than_another_meaning(grade):
    wanted = "Restart the server so that the change takes effect."
    near = grade("The server must be rebooted before the change is active.", value=wanted)
    far = grade("Bananas are rich in potassium.", value=wanted)
    assert near.score > 0.45 > 0.2 > far.score
    assert near.judge_model.startswith("wordllama ")


def test_the_nearest_of_several_texts_counts(grade):
    found = grade("Paris", value=["a cat", "Paris"])
    assert found.score == pytest.approx(1, abs=1e-5)
    assert found.passed


def test_the_cases_answer_is_meant_when_no_value_is_given(grade):
    assert grade("Paris", "Paris").passed
    for answer in (None, 5, [], [1]):
        with pytest.raises(GraderError, match="no text to compare with"):
            grade("Paris", answer)


def test_an_empty_answer_fails(grade):
    found = grade("  ", value="x")
    assert (found.passed, found.score) == (False, 0.0)


def test_it_needs_no_network(grade, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("the network was asked")

    module._load.cache_clear()
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert grade("Paris", value="Paris").passed


def test_loading_it_leaves_logging_alone():
    code = (
        "import logging; from mst.grade.assertions.similarity import nearest; nearest('a', ['b']); "
        "assert not logging.getLogger().handlers; assert logging.getLogger().level == logging.WARNING"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_missing_package_names_the_extra(grade, monkeypatch):
    module._load.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ConfigError, match=r"mst\[similarity\]"):
        grade("a", value="b")
