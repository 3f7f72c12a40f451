"""Whatever bytes a config file holds, reading it ends in data or in one clear kind of error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mst.config.source import SAFE_INTEGER, in_order, read
from mst.errors import ConfigError

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE_INTEGER, SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("sources")


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=300), ending=st.sampled_from([".yaml", ".json", ".toml"]))
def test_any_bytes_give_data_or_a_config_error(folder, data, ending):
    path = folder / f"x{ending}"
    path.write_bytes(data)
    try:
        source = read(path, name="x")
    except ConfigError as error:
        assert error.faults  # noqa: PT017 - either outcome is right
        assert all(fault.startswith("x") for fault in error.faults)  # noqa: PT017 - either outcome is right
    else:
        json.dumps(source.data, allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet="ab:-[]{}&*!<>|'\"# \n,0.~?%@", max_size=80))
def test_any_yaml_punctuation_gives_data_or_a_config_error(folder, text):
    path = folder / "y.yaml"
    path.write_text(text)
    try:
        source = read(path, name="y")
    except ConfigError:
        return
    json.dumps(source.data, allow_nan=False)


@settings(max_examples=150, deadline=None)
@given(data=plain)
def test_json_is_read_as_it_is_and_every_part_has_a_place(folder, data):
    path = folder / "z.json"
    path.write_text(json.dumps(data, indent=1))
    source = read(path, name="z")
    assert source.data == data
    assert all(source.has(keys) for keys in _paths(data))


@settings(max_examples=150, deadline=None)
@given(data=plain)
def test_yaml_that_a_yaml_writer_wrote_is_read_back(folder, data):
    path = folder / "w.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True))
    source = read(path, name="w")
    assert source.data == data
    assert all(source.has(keys) for keys in _paths(data))


@given(lines=st.lists(st.tuples(st.sampled_from(["a.yaml", "b.yaml"]), st.integers(1, 30)), max_size=12))
def test_faults_are_ordered_by_line_within_each_file_and_none_is_lost(lines):
    faults = [f"{name}:{line}: wrong" for name, line in lines]
    ordered = in_order(faults)
    assert set(ordered) == set(faults)
    for name in ("a.yaml", "b.yaml"):
        own = [int(fault.split(":")[1]) for fault in ordered if fault.startswith(name)]
        assert own == sorted(own)


def _paths(data, keys=()):
    yield keys
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _paths(value, (*keys, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _paths(value, (*keys, index))
