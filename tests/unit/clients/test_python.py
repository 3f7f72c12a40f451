"""The python client: answers, failures, and whose fault they are."""

from __future__ import annotations

import asyncio

import pytest

from mst.clients.python import PythonCallable
from mst.config.files import IndexedFiles
from mst.errors import ClientError
from mst.model.case import Case, TrialLimits, Variant
from mst.testing.client import one_run

SOURCE = """
import os, sys
from helper import double

def context(given, about):
    return repr(sorted(about.items()))

def given(value):
    return f"{type(value).__name__} {value}"

def full(value):
    events = [{"kind": "tool_call", "name": "t"}]
    return {"final_text": "ok", "usage": {"input_tokens": 5}, "events": events, "evidence": "structured"}

def doubled(value):
    print("noise on stdout")
    return double(value)

def raises(value):
    raise KeyError("broken")

def leaves(value):
    sys.exit(64)

def crashes(value):
    os.abort()

def strange(value):
    return 3

def not_json(value):
    return {"x": object()}

def bad_event(value):
    return {"events": [{"kind": "dance"}]}

def long(value):
    return "x" * 5000

def here(value):
    open("made", "w").close()
    return os.getcwd()

class Group:
    @staticmethod
    def method(value):
        return "from a class"
"""


@pytest.fixture
def listed(tmp_path):
    config = tmp_path / "config"
    config.mkdir()
    (config / "tool.py").write_text(SOURCE)
    (config / "helper.py").write_text("def double(x): return x + x")
    files = IndexedFiles()
    return files, [files.add(config, name).to_dict() for name in ("tool.py", "helper.py")]


def run(tmp_path, listed, function, given="q", **changes):
    files, refs = listed
    variant = Variant(name="v", client="python", client_options={"function": function, "files": refs}, **changes)
    case = Case(id="c", dataset="d", input=given)
    return asyncio.run(one_run(PythonCallable(variant), case, variant, tmp_path / "t", files=files))


def test_its_own_files_are_importable_and_prints_do_no_harm(tmp_path, listed):
    result = run(tmp_path, listed, "./tool.py:doubled")
    assert result.transcript.final_text == "qq"
    assert result.diagnostics["stdout"] == "noise on stdout\n"


def test_a_mapping_input_arrives_as_a_mapping_unless_a_template_makes_it_text(tmp_path, listed):
    assert run(tmp_path, listed, "tool:given", {"a": 1}).transcript.final_text == "dict {'a': 1}"
    template = "<{{input.a}}>"
    assert (
        run(tmp_path / "2", listed, "tool:given", {"a": 1}, input_template=template).transcript.final_text == "str <1>"
    )


def test_the_context_names_case_variant_and_workspace(tmp_path, listed):
    text = run(tmp_path, listed, "tool:context", model="m").transcript.final_text
    assert text == repr(
        [("case_id", "c"), ("model", "m"), ("trial", 0), ("variant", "v"), ("workspace", str(tmp_path / "t/workspace"))]
    )


def test_a_dict_answer_fills_the_transcript(tmp_path, listed):
    transcript = run(tmp_path, listed, "tool:full").transcript
    assert (transcript.final_text, transcript.usage.input_tokens, transcript.evidence) == ("ok", 5, "structured")
    assert [event.name for event in transcript.events] == ["t"]


def test_a_method_can_be_named(tmp_path, listed):
    assert run(tmp_path, listed, "tool:Group.method").transcript.final_text == "from a class"


def test_it_works_in_the_workspace(tmp_path, listed):
    run(tmp_path, listed, "tool:here")
    assert (tmp_path / "t/workspace/made").exists()


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("tool:raises", "KeyError: 'broken'"),
        ("tool:leaves", "code 64"),
        ("tool:crashes", "code -6"),
        ("tool:strange", "not int"),
        ("tool:not_json", "not JSON serializable"),
        ("tool:bad_event", "kind"),
    ],
)
def test_what_the_function_does_wrong_is_the_agents_failure(tmp_path, listed, function, said):
    result = run(tmp_path, listed, function)
    assert result.error_kind == "agent"
    assert said in result.error
    assert result.transcript.error == result.error


@pytest.mark.parametrize("function", ["tool:nothing", "no_such_module:f", "./tool.py:SOURCE_X", "tool:os"])
def test_a_function_that_can_not_be_loaded_is_the_environments_fault(tmp_path, listed, function):
    with pytest.raises(ClientError, match="could not be loaded") as caught:
        run(tmp_path, listed, function)
    assert caught.value.kind == "environment"


def test_an_answer_over_the_output_limit_is_told(tmp_path, listed):
    assert run(tmp_path, listed, "tool:long", trial_limits=TrialLimits(output_bytes=4000)).limit_hit == "output"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"function": "./tool.py:f"}, "not among client_options.files"),
        ({"function": "surely_not_installed_here.x:f"}, "no such module"),
    ],
)
def test_preflight_finds_what_can_not_be_loaded(options, said):
    faults = PythonCallable(Variant(name="v", client="python", client_options=options)).preflight()
    assert len(faults) == 1
    assert said in faults[0]


def test_preflight_accepts_what_is_installed_or_listed(listed):
    for options in ({"function": "json:dumps"}, {"function": "./tool.py:f", "files": listed[1]}):
        assert PythonCallable(Variant(name="v", client="python", client_options=options)).preflight() == []
