import pytest

from mst.report.text import case_label, clipped, names, one_line, shown, visible


def test_control_and_direction_characters_become_visible():
    assert visible("a\x1b[31m\x07\x7f\r") == "a\u241b[31m\u2407\u2421\u240d"
    assert visible("x\u202egnp\u2066") == "x<U+202E>gnp<U+2066>"


def test_newlines_and_tabs_stay_in_a_text_but_not_in_a_line():
    assert visible("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb  c") == "a b c"


def test_a_lone_surrogate_can_be_encoded_afterwards():
    assert visible("a\ud800b").encode() == "a\ufffdb".encode()


def test_a_long_line_is_cut_to_the_limit():
    assert one_line("x" * 500, limit=20) == "x" * 17 + "..."


def test_a_cut_text_says_how_much_is_left_out():
    assert clipped("y" * 1500, limit=500).endswith("\n[1,000 more characters are in the stored file]")
    assert clipped("short", limit=500) == "short"


def test_a_map_is_shown_as_lines_with_code_kept_readable():
    shown_map = shown({"task": "mend", "mod.py": "import os\nprint(1)\n", "n": [1, 2]}, limit=500)
    assert shown_map.startswith("task: mend\nmod.py:\n    import os\n    print(1)\nn:")


@pytest.mark.parametrize(("count", "said"), [(2, "a, b"), (5, "a, b, c, d, e"), (7, "a, b, c, d, e and 2 more")])
def test_lists_of_names_are_cut_with_and_n_more(count, said):
    assert names(list("abcdefg"[:count])) == said


def test_a_case_label_is_bounded():
    assert len(case_label("n" * 1000)) == 240


def test_one_more_name_is_given_and_not_counted():
    assert names(list("abcdef")) == "a, b, c, d, e, f"
    assert names(list("abcdefg")) == "a, b, c, d, e and 2 more"
