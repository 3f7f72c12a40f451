"""Files of results come from anywhere: whatever is in them, they are read, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mst.clients.imports.index import index_of_paths
from mst.clients.imports.records import ImportFault
from mst.model.transcript import Transcript

SAMPLES = Path(__file__).parents[1] / "data/imports"
EVENT = '{"kind": "message", "name": "x", "output": "y"}'
ROW = f'{{"caseId": "a", "model": "m", "events": [{EVENT}], "usage": {{"turns": 1}}}}\n'
PIECES = [
    b"null",
    b"[]",
    b"{}",
    b"-1",
    b"1e999",
    b"NaN",
    b'"\\ud800"',
    b"\\ud800",
    b"true",
    b'""',
    b"[[[",
    b"\xff",
    b",",
]


def everything(path):
    """Read all of a file's trials, as collecting all cases would; refusals in one line are fine."""
    index = _or_refused(path.name, lambda: index_of_paths([path], format="auto", case_id=None))
    for model, prompt, case_id, trial in trials(index) if index is not None else ():
        found = _or_refused(path.name, lambda key=(model, prompt, case_id, trial): index.find(*key))
        if found is not None:
            told = found[1]
            Transcript(events=told.events, final_text=told.final_text, usage=told.usage, error=told.error).to_json()
            json.dumps([told.input, told.expected, told.metadata, told.scores], allow_nan=False).encode()


def trials(index):
    for model, labels in index.prompts.items():
        for prompt in labels:
            for case_id in index.cases:
                for trial in index.trials(model, prompt, case_id):
                    yield model, prompt, case_id, trial


def _or_refused(name, work):
    try:
        return work()
    except ImportFault as fault:
        said = str(fault)
    assert said.startswith(name)
    assert "\n" not in said
    return None


@pytest.mark.parametrize("name", ["menu.eval", "menu.json", "promptfoo.json", "promptfoo.jsonl", "rows.jsonl"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(name, data, tmp_path_factory):
    whole = (SAMPLES / name).read_bytes() if name != "rows.jsonl" else ROW.encode() * 3
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=6))
        damaged[at : at + data.draw(st.integers(0, 12))] = piece
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(bytes(damaged))
    everything(path)


NAMES = st.sampled_from(["role", "content", "id", "type", "text", "tool_calls", "function", "message", "choices"])
ROLES = st.sampled_from(["assistant", "tool"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["assistant", "tool"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["epoch", "input", "target", "messages", "output", "model_usage", "error", "limit", "scores", "attachments"]
)


@settings(max_examples=150, deadline=None)
@given(sample=st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(NAMES, JSON), max_size=2)))
def test_a_sample_of_any_shape_is_taken_or_refused(sample, tmp_path_factory):
    path = tmp_path_factory.mktemp("shape") / "s.json"
    path.write_text(json.dumps({"version": 2, "eval": {"model": "m"}, "samples": [{"id": "a", **sample}]}))
    everything(path)
