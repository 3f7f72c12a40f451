"""Whatever a program under test writes, the report shows it and is not steered by it."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from mst.report.chunks import script_json
from mst.report.text import clipped, names, one_line, shown, visible

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=200)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@given(ANY_TEXT)
def test_visible_text_has_no_control_or_direction_character_and_can_be_encoded(text):
    made = visible(text)
    made.encode()
    assert all(character in "\n\t" or unicodedata.category(character) != "Cc" for character in made)
    assert not any(
        unicodedata.bidirectional(character) in {"RLO", "LRO", "RLE", "LRE", "RLI", "LRI"} for character in made
    )


@given(ANY_TEXT)
def test_visible_text_stays_as_it_is_the_second_time(text):
    assert visible(visible(text)) == visible(text)


@given(ANY_JSON)
def test_script_json_means_the_same_and_holds_no_markup(value):
    made = script_json(value)
    assert json.loads(made) == value
    assert not set(made) & set("<>&\u2028\u2029")


@given(ANY_TEXT, st.integers(min_value=4, max_value=60))
def test_a_line_is_one_line_within_its_limit(text, limit):
    made = one_line(text, limit=limit)
    assert len(made) <= limit
    assert "\n" not in made


@given(ANY_JSON, st.integers(min_value=1, max_value=60))
def test_shown_values_are_bounded(value, limit):
    head = shown(value, limit=limit).partition("\n[")[0]
    assert len(head) <= limit * len("<U+0085>")


@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=30), st.integers(1, 10))
def test_a_list_of_names_says_how_many_it_leaves_out(ids, limit):
    said = names(ids, limit=limit)
    assert said.endswith(f" and {len(ids) - limit} more") == (len(ids) > limit + 1)
    assert (said == ", ".join(ids)) == (len(ids) <= limit + 1)
    assert said.startswith(", ".join(ids[:limit]))


@given(ANY_TEXT, st.integers(min_value=0, max_value=300))
def test_a_text_is_cut_only_when_it_is_longer_than_the_limit(text, limit):
    assert ("more characters are in the stored file" in clipped(text, limit=limit)) == (len(text) > limit)
