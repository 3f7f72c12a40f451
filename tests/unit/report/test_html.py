import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest

from mst.errors import InfrastructureError
from mst.report.html import write_report
from mst.report.page import sentence_case


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self._inside = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data):
        self.texts.setdefault(self._inside, []).append(data)


@pytest.fixture(scope="module")
def page(four, tmp_path_factory):
    return write_report(four.folder, tmp_path_factory.mktemp("report"))


def test_hostile_text_makes_no_element_and_no_control_character(page):
    text = page.read_text(encoding="utf-8")
    elements = Elements(text)
    assert [attrs for tag, attrs in elements.tags if tag == "img"] == []
    scripts = [attrs for tag, attrs in elements.tags if tag == "script"]
    assert [attrs for attrs in scripts if attrs.get("type") != "application/json"] == [{}]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u2028]", text)
    assert all(not name.startswith("on") for _, attrs in elements.tags for name in attrs)


def test_the_page_names_nothing_outside_itself(page):
    elements = Elements(page.read_text(encoding="utf-8"))
    links = [attrs[name] for _, attrs in elements.tags for name in ("src", "href", "action") if name in attrs]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)


def test_the_policy_lets_only_our_script_and_style_run(page):
    elements = Elements(page.read_text(encoding="utf-8"))
    policy = next(attrs["content"] for tag, attrs in elements.tags if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        code = max(elements.texts[tag], key=lambda text: ("use strict" in text or ":root" in text, len(text)))
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_flips_come_first_with_regressions_on_top(page, made_runs):
    cases = made_runs.index_of(page)["cases"]
    flips = [case["flip"] for case in cases]
    assert cases[0]["id"] == "query-none"
    assert flips == sorted(flips, key=["regression", "down", "up", ""].index)
    assert len(cases) == 24


def test_every_trial_is_in_the_index_with_its_outcome(page, made_runs):
    index = made_runs.index_of(page)
    letters = "".join(cell[1] for case in index["cases"] for cell in case["cells"])
    assert len(letters) == 96
    assert {letter: letters.count(letter) for letter in "imgu"} == {"i": 1, "m": 1, "g": 1, "u": 4}
    assert index["variants"] == made_runs.VARIANTS
    assert index["baseline"] == 0


def test_sections_stand_in_the_order_of_the_spec_and_say_their_numbers(page):
    text = page.read_text(encoding="utf-8")
    order = [text.index(f'id="{name}"') for name in ("result", "variants", "differs", "cases", "why", "about")]
    assert order == sorted(order)
    assert text.index("Before you read on") < text.index("autoflake")  # warnings first
    for said in ("ruff is better than autoflake", "21 of 24 trials scored", "Not failures", "celery"):
        assert said in text


def test_one_variant_makes_a_page_without_comparisons(alone, tmp_path, made_runs):
    text = write_report(alone.folder, tmp_path).read_text(encoding="utf-8")
    assert "there is one variant only" in text
    assert "The numbers behind the verdicts" not in text


def test_a_report_without_any_result_still_says_what_it_is(four, tmp_path):
    class Empty:
        summary = four.folder.summary

        def run(self):
            return four.folder.run().model_copy(update={"config_path": "my evals/eval.yaml"})

        def case_results(self):
            return []

        def preferences(self):
            return []

        def trial(self, key):
            raise AssertionError

    text = html.unescape(write_report(Empty(), tmp_path).read_text(encoding="utf-8"))
    assert "python-fixers" in text
    assert "mst run 'my evals/eval.yaml' --seed " in text


def test_large_details_go_into_scripts_beside_the_page(four, tmp_path, made_runs):
    page = write_report(four.folder, tmp_path, inline_max_bytes=1000, chunk_bytes=20_000)
    index = made_runs.index_of(page)
    scripts = sorted((tmp_path / "data" / index["data"]).iterdir())
    assert len(scripts) > 3
    assert 'id="chunk-' not in page.read_text(encoding="utf-8")
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert re.fullmatch(r'mstData\(\d+,"[^<>&\u2028]*"\);\n', text)
    chunk = index["cases"][0]["cells"][0][2]
    text = (tmp_path / "data" / index["data"] / f"{chunk}.js").read_text(encoding="utf-8")
    entries = json.loads(json.loads(text[text.index(",") + 1 : -3]))
    assert f"t{index['cases'][0]['n']}.0" in entries


def test_writing_again_replaces_the_page_and_drops_old_data(four, repeated, tmp_path):
    write_report(four.folder, tmp_path, inline_max_bytes=0)
    before = {path.name for path in (tmp_path / "data").iterdir()}
    write_report(repeated.folder, tmp_path, inline_max_bytes=0)
    after = {path.name for path in (tmp_path / "data").iterdir()}
    assert len(after) == 1
    assert not before & after
    write_report(repeated.folder, tmp_path, inline_max_bytes=0)
    assert {path.name for path in (tmp_path / "data").iterdir()} == after
    write_report(repeated.folder, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_the_same_run_gives_the_same_bytes(four, tmp_path):
    first = write_report(four.folder, tmp_path / "a").read_bytes()
    assert write_report(four.folder, tmp_path / "b").read_bytes() == first


def test_a_failure_leaves_the_old_report_and_no_rubbish(four, tmp_path):
    page = write_report(four.folder, tmp_path)
    before = page.read_bytes()

    class Broken:
        run, summary, trial = four.folder.run, four.folder.summary, four.folder.trial
        case_results = four.folder.case_results

        def preferences(self):
            raise OSError("the disk is gone")

    with pytest.raises(InfrastructureError, match="the disk is gone"):
        write_report(Broken(), tmp_path)
    assert page.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_a_sentence_that_begins_with_a_case_keeps_its_id(four):
    verdict = next(found for found in four.summary.verdicts if found.regressions)
    [case] = verdict.regressions[:1]
    note = f"{case}: fell in its one trial, which may be chance"
    assert sentence_case(note, verdict) == note
    assert sentence_case("few cases", verdict) == "Few cases"
