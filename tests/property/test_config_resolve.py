"""What must hold for every patch, case file, secret file and credential."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mst.config.cases import CaseFile
from mst.config.narrow import sample
from mst.config.recorded import conceal, credential_paths
from mst.config.resolve import load_eval
from mst.config.secrets import read_secrets_file
from mst.config.variants import differences, merge, unexpected
from mst.errors import ConfigError, CorruptFile
from mst.model.case import Case, Variant

keys = st.sampled_from(["a", "b", "c", "d"])
leaves = st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2) | st.sampled_from(["x", "y"])
trees = st.recursive(
    st.dictionaries(keys, leaves, max_size=3), lambda inner: st.dictionaries(keys, inner | leaves, max_size=3)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("resolve")


@given(base=trees, patch=trees)
def test_a_patch_wins_leaf_by_leaf_and_everything_else_stays(base, patch):
    merged = merge(base, patch)
    for path, value in _leaves(patch):
        assert _at(merged, path) == value
    touched = [path for path, _ in _leaves(patch)] + list(_empty(patch))
    for path, value in _leaves(base):
        if not any(path[: len(other)] == other or other[: len(path)] == path for other in touched):
            assert _at(merged, path) == value
    assert merge(merged, patch) == merged
    assert merge(base, {}) == base


@given(base=trees, patches=st.lists(trees, min_size=2, max_size=4))
def test_differences_name_exactly_the_fields_in_which_variants_differ(base, patches):
    variants = [
        Variant(name=f"v{index}", client="echo", client_options=merge(base, patch))
        for index, patch in enumerate(patches)
    ]
    found = differences(variants)
    assert bool(found) == (len({json.dumps(_bare(v.client_options), sort_keys=True) for v in variants}) > 1)
    assert unexpected(found, [difference.field for difference in found]) == []
    assert unexpected(found, ["client_options"]) == []
    assert unexpected(found, []) == found


@settings(max_examples=50, deadline=None)
@given(inputs=st.lists(st.tuples(ids, texts), max_size=8, unique_by=lambda pair: pair[0]), cut=st.integers(1, 200))
def test_a_case_file_reads_back_whole_and_never_cut(folder, inputs, cut):
    path = folder / "cases.jsonl"
    cases = [Case(id=case_id, dataset="d", input=text, metadata={"t": text}) for case_id, text in inputs]
    written = CaseFile.write(path, cases)
    opened = CaseFile.open(path)
    assert list(opened) == cases
    assert [opened.get(case_id) for case_id, _ in inputs] == cases
    assert opened.hash == written.hash
    data = path.read_bytes()
    assume(len(data) > cut and data[: len(data) - cut][-1:] not in {b"\n", b""})
    path.write_bytes(data[: len(data) - cut])
    with pytest.raises(CorruptFile):
        CaseFile.open(path)


@given(case_ids=st.lists(ids, unique=True, max_size=30), count=st.integers(1, 10), seed=st.integers(0, 5))
def test_a_sample_has_its_size_and_grows_without_changing_its_mind(case_ids, count, seed):
    taken = sample(case_ids, count, seed)
    assert len(taken) == min(count, len(case_ids))
    assert taken == sample(reversed(case_ids), count, seed)
    assert taken <= sample(case_ids, count + 1, seed)


@settings(max_examples=80, deadline=None)
@given(values=st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), texts, max_size=4))
def test_a_json_secrets_file_gives_back_every_value(folder, values):
    assume(not any("\0" in value for value in values.values()))
    path = folder / "secrets.json"
    path.write_text(json.dumps(values))
    assert read_secrets_file(path) == values


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="AB=_ '\"\\#\nxn", max_size=40))
def test_dotenv_lines_are_read_or_refused_without_repeating_them(folder, text):
    path = folder / "secrets.env"
    path.write_text(f"PLANTED=canary-value\n{text}")
    try:
        assert read_secrets_file(path)["PLANTED"] is not None
    except ConfigError as error:
        assert "canary" not in str(error)  # noqa: PT017 - most texts are read; a refusal must not repeat them


values = st.recursive(texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ids, inner, max_size=3))


@given(value=values, secret=ids)
def test_what_stands_under_a_credential_key_never_stays(value, secret):
    key = "ab" * 32
    planted = {"outer": [value, {"apiToken": f"planted-{secret}"}]}
    concealed = conceal(planted, key)
    assert "planted-" not in json.dumps(concealed)
    assert credential_paths(planted)
    assert conceal(concealed, key)["outer"][1].keys() == {"apiToken"}


KEYS = [
    "trials",
    "client",
    "clientOptions",
    "variants",
    "judges",
    "assertions",
    "datasets",
    "extends",
    "vary",
    "run",
    "servers",
    "env",
    "sandbox",
    "pairwise_judges",
    "rate_limits",
    "limits",
    "timeout",
    "files",
    "plugins",
    "secrets",
    "metrics",
    "budget",
    "pricing",
    "tools",
]
NAMES = ["name", "command", "argv", "type", "files", "secret", "a", ""]


@settings(max_examples=150, deadline=None)
@given(
    more=st.dictionaries(
        st.sampled_from(KEYS),
        st.recursive(
            st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from(["", "echo", "x", "../y", "/", "command"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_any_config_resolves_or_is_refused_with_places(folder, more):
    (folder / "cases.json").write_text('[{"id": "a"}]')
    config = {"name": "n", "client": "echo", "datasets": ["cases.json"], **more}
    path = folder / "eval.json"
    path.write_text(json.dumps(config, indent=1))
    try:
        load_eval(path).close()
    except ConfigError as error:
        assert all(error.faults)  # noqa: PT017 - either outcome is right


def _leaves(tree, path=()):
    for key, value in tree.items():
        if isinstance(value, dict):
            if not value:
                continue
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _empty(tree, path=()):
    for key, value in tree.items():
        if value == {}:
            yield (*path, key)
        elif isinstance(value, dict):
            yield from _empty(value, (*path, key))


def _at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def _bare(tree):
    """Without empty mappings and lists, which count as absent."""
    found = {key: _bare(value) if isinstance(value, dict) else value for key, value in tree.items()}
    return {key: value for key, value in found.items() if value not in ({}, [])}
