from __future__ import annotations

import time
from pathlib import Path

import pytest

from mst.config.source import nearest, read
from mst.errors import ConfigError


def load(folder: Path, name: str, text: str):
    path = folder / name
    path.write_text(text)
    return read(path, name=name)


def faults(folder: Path, name: str, text: str | bytes) -> tuple[str, ...]:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        read(path, name=name)
    return caught.value.faults


def test_the_same_data_comes_out_of_all_three_formats(tmp_path):
    yaml = load(tmp_path, "a.yaml", "name: x\nitems:\n  - {k: 1}\n  - {k: 2.5}\nnothing: true\n")
    json = load(tmp_path, "a.json", '{"name": "x", "items": [{"k": 1}, {"k": 2.5}], "nothing": true}')
    toml = load(tmp_path, "a.toml", 'name = "x"\nnothing = true\n[[items]]\nk = 1\n[[items]]\nk = 2.5\n')
    assert yaml.data == json.data == toml.data == {"name": "x", "items": [{"k": 1}, {"k": 2.5}], "nothing": True}


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.yaml", "name: x\nvariants:\n  - name: a\n    clientOptions:\n      argv: [x]\n", 5),
        ("a.json", '{"name": "x",\n "variants": [\n  {"name": "a",\n   "clientOptions": {\n     "argv": ["x"]}}]}', 5),
        ("a.toml", 'name = "x"\n[[variants]]\nname = "a"\n[variants.clientOptions]\nargv = ["x"]\n', 5),
    ],
)
def test_places_are_known_in_every_format_and_spelling(tmp_path, name, text, line):
    source = load(tmp_path, name, text)
    assert source.place(("variants", 0, "client_options", "argv")) == f"{name}:{line}"
    assert source.place(("variants", 0, "clientOptions", "argv", "not", "there")) == f"{name}:{line}"


def test_a_part_without_a_place_has_that_of_what_is_around_it(tmp_path):
    source = load(tmp_path, "a.yaml", "a:\n  b: 1\n")
    assert source.place(("a", "zzz", 3)) == "a.yaml:1"


@pytest.mark.parametrize("text", ["no", "yes", "on", "off", "y", "1:30", "2024-01-01", "1_000", "0b1", "1e3"])
def test_yaml_texts_that_only_look_like_something_else_stay_texts(tmp_path, text):
    assert load(tmp_path, "a.yaml", f"value: {text}\n").data == {"value": text}


@pytest.mark.parametrize(
    ("text", "value"), [("010", 10), ("0x1F", 31), ("-3", -3), ("1.5e+3", 1500.0), ("~", None), ("True", True)]
)
def test_yaml_numbers_are_those_of_yaml_1_2(tmp_path, text, value):
    assert load(tmp_path, "a.yaml", f"value: {text}\n").data == {"value": value}


def test_yaml_aliases_and_merge_keys_work(tmp_path):
    data = load(tmp_path, "a.yaml", "a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\nc: *a\n").data
    assert data == {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 1, "y": 1}}


def test_a_bomb_of_aliases_is_refused_quickly(tmp_path):
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    started = time.process_time()
    assert any("aliases expand" in fault for fault in faults(tmp_path, "a.yaml", "\n".join(lines)))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.yaml", "a: 1\nb: 2\na: 3\n", "a.yaml:3: key 'a' is given twice"),
        ("a.yaml", "a: &x [*x]\n", "a.yaml:1: an alias refers to a part that it stands in"),
        ("a.yaml", "ok: 1\nbad: !!python/object/apply:os.system [ls]\n", "a.yaml:2: tag 'tag:yaml.org,2002:python"),
        ("a.yaml", "a: [1\nb: 2\n", "a.yaml:2: not valid YAML"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "not valid YAML"),
        ("a.yaml", "a:\n  b: 1\n\tc: 2\n", "a.yaml:3: not valid YAML: a tab stands where only spaces may"),
        ("a.yaml", "a: .inf\n", "a.yaml:1: infinities"),
        ("a.yaml", "a:\n - 99999999999999999999\n", "a.yaml:2: integers beyond 2^53"),
        ("a.yaml", "? [1]\n: 2\n", "a key must be a text"),
        ("a.yaml", "[" * 5000, "not valid YAML"),
        ("a.yaml", "[" * 200 + "]" * 200, "nested more than 100 levels"),
        ("a.json", '{"a": 1,\n "a": 2}', "key 'a' is given twice"),
        ("a.json", '{"a": 1,\n "b": }', "a.json:2: not valid JSON"),
        ("a.json", '{"a": NaN}', "a.json:1: infinities and NaN"),
        ("a.json", "[" * 100_000, "nested more than"),
        ("a.json", '{"a": "\\ud800"}', "a.json:1: half of a surrogate pair"),
        ("a.toml", "a = 1\nb = \n", "a.toml:2: not valid TOML"),
        ("a.yaml", b"a: 1\nb: \xff\n", "a.yaml:2: not UTF-8"),
        ("a.txt", "a", "expected a .yaml, .yml, .json or .toml file"),
    ],
)
def test_bad_files_are_refused_with_their_place(tmp_path, name, text, expected):
    assert any(expected in fault for fault in faults(tmp_path, name, text))


def test_all_faults_of_a_file_are_reported_at_once(tmp_path):
    assert len(faults(tmp_path, "a.yaml", "a: .nan\nb: 1\nb: 2\nc: !!binary aGk=\n")) == 3


def test_a_missing_file_and_a_huge_one_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read(tmp_path / "none.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (10 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than 10 MB"):
        read(tmp_path / "big.yaml")


def test_toml_keys_inside_longer_texts_are_not_taken_for_places(tmp_path):
    source = load(tmp_path, "a.toml", 'text = """\nname = "no"\n"""\nname = "yes"\n"a.b".c = 2024-01-01\n')
    assert source.place(("name",)) == "a.toml:4"
    assert source.data["a.b"]["c"] == "2024-01-01"
    assert source.place(("a.b", "c")) == "a.toml:5"


def test_what_a_word_begins_is_nearer_than_what_it_looks_like():
    known = ["contains_text", "not_contains_text", "file_contains", "equals"]
    assert nearest("contains", known) == " (did you mean 'contains_text'?)"
    assert nearest("equal", known) == " (did you mean 'equals'?)"
    assert nearest("e", known) == ""
