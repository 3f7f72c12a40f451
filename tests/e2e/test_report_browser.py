"""The report in a real browser: it loads nothing, runs nothing but its own script, and shows a trial when asked."""

import importlib.util
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from mst.report.html import write_report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MADE_RUNS = Path(__file__).parents[1] / "unit" / "report" / "made_runs.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]


def unavailable(reason):
    if os.environ.get("CI"):
        pytest.fail(f"{reason}: CI must run this")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def made_runs():
    name = "mst_report_made_runs"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, MADE_RUNS)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="module")
def browser(four):  # made before the browser is there, whose event loop would be in the way
    program = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if program is None:
        unavailable("no Chromium on PATH")
    if importlib.util.find_spec("playwright") is None:
        unavailable("playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield opened
        opened.close()


class Watched:
    """An open page with everything that it complained about and asked for."""

    def __init__(self, page):
        self.page = page
        self.complaints, self.requests = [], []
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def is_clean(self):
        return not self.complaints and all(url.startswith(("file:", "data:")) for url in self.requests)


@contextmanager
def watching(browser, report, **options):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    try:
        watched = Watched(context.new_page())
        watched.page.goto(report.as_uri())
        yield watched
    finally:
        context.close()


@pytest.fixture(scope="module")
def four(made_runs, tmp_path_factory):
    return made_runs.build_run(tmp_path_factory.mktemp("four"))


@pytest.fixture(scope="module")
def report(four, tmp_path_factory):
    return write_report(four.folder, tmp_path_factory.mktemp("report"))


def cell(page, case, variant):
    return page.get_by_role("button", name=f"{variant} on {case}: ", exact=False)


def test_a_case_opens_with_its_transcript_diff_and_scores(browser, report):
    with watching(browser, report) as watched:
        page = watched.page
        cell(page, "query-none", "ruff-unsafe").click()
        panel = page.get_by_role("dialog")
        assert panel.get_by_role("heading", name="query-none").is_visible()
        panel.locator(".timeline").wait_for()
        assert "1 fault mended" in panel.locator(".timeline").inner_text()
        assert panel.locator(".diff .del").inner_text() == "-import os"
        assert panel.locator(".diff .add").inner_text() == "+# ok"
        assert "behaviour" in panel.locator(".score").first.inner_text()
        assert "baseline shown first" in panel.inner_text()
        assert "candidate shown first" in panel.inner_text()
        assert watched.is_clean(), (watched.complaints, watched.requests)


def test_hostile_text_is_shown_and_does_nothing(browser, report):
    with watching(browser, report) as watched:
        page = watched.page
        cell(page, "unused-variable", "ruff").click()
        page.locator("#panel .timeline").wait_for()
        assert "window.hurt=1" in page.locator("#panel .diff").inner_text()
        assert "\u241b[31mred" in page.locator("#panel .diff").inner_text()
        assert page.evaluate("window.hurt") is None
        assert page.evaluate("({}).polluted") is None
        assert page.locator("img").count() == 0
        assert page.locator("#panel script").count() == 0
        assert watched.is_clean(), (watched.complaints, watched.requests)


def test_a_script_that_got_in_would_not_run(browser, report):
    with watching(browser, report) as watched:
        watched.page.evaluate(
            "() => document.body.append(Object.assign(document.createElement('script'), {textContent: 'hurt = 1'}))"
        )
        assert watched.page.evaluate("window.hurt") is None
        assert any("Content Security Policy" in complaint for complaint in watched.complaints)


def test_nothing_leaves_the_page_on_a_phone_or_in_the_dark(browser, report):
    for scheme, width in (("light", 1280), ("dark", 420)):
        with watching(browser, report, color_scheme=scheme) as watched:
            watched.page.set_viewport_size({"width": width, "height": 900})
            assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            background = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(20, 23, 26)") == (scheme == "dark")
            assert watched.is_clean(), (watched.complaints, watched.requests)


def test_paper_is_light_also_from_a_dark_screen(browser, report):
    with watching(browser, report) as watched:
        style = "getComputedStyle(document.querySelector('.cell.pass')).backgroundColor"
        watched.page.emulate_media(media="print", color_scheme="light")
        light = watched.page.evaluate(style)
        watched.page.emulate_media(media="print", color_scheme="dark")
        assert watched.page.evaluate(style) == light
        watched.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        assert watched.page.evaluate(style) == light


def test_a_case_keeps_its_name_when_the_grid_is_scrolled_sideways(browser, report):
    with watching(browser, report) as watched:
        watched.page.set_viewport_size({"width": 390, "height": 844})
        left = "document.querySelector('#grid tbody th').getBoundingClientRect().left"
        before = watched.page.evaluate(left)
        watched.page.evaluate("document.querySelector('#grid').parentElement.scrollLeft = 200")
        assert watched.page.evaluate("document.querySelector('#grid').parentElement.scrollLeft") > 100
        assert watched.page.evaluate(left) == before


def test_filters_narrow_the_grid(browser, report):
    with watching(browser, report) as watched:
        page = watched.page
        rows = page.locator("#grid tbody tr")
        assert rows.count() == 24
        page.get_by_label("Outcome").select_option("regression")
        assert rows.count() == 1
        page.get_by_label("Outcome").select_option("")
        page.get_by_label("Tag").select_option("stay_quiet")
        assert rows.count() == 4
        page.get_by_label("Find").fill("no such case")
        assert "No case matches" in rows.first.inner_text()
        assert page.get_by_role("status").inner_text() == "0 of 24 cases"


def test_the_grid_and_the_panel_work_by_keyboard_and_link(browser, report):
    with watching(browser, report) as watched:
        page = watched.page
        cell(page, "query-none", "autoflake").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.locator("#panel .timeline").wait_for()
        assert page.locator("#panel button[aria-pressed=true]").first.inner_text() == "ruff"
        assert "case=query-none" in page.url
        linked = page.url
        page.keyboard.press("Escape")
        page.locator("#panel").wait_for(state="hidden")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("ruff on query-none")
        page.goto("about:blank")
        page.goto(linked)
        page.locator("#panel .timeline").wait_for()
        assert page.locator("#panel-title").inner_text() == "query-none"
        assert watched.is_clean(), (watched.complaints, watched.requests)


def test_a_reason_of_failure_links_to_its_trial(browser, report):
    with watching(browser, report) as watched:
        page = watched.page
        page.get_by_role("link", name="oserror-alias · pyupgrade · trial 0").click()
        page.locator("#panel .bad.text").first.wait_for()
        assert "the judge answered 429" in page.locator("#panel").inner_text()
        assert watched.is_clean(), (watched.complaints, watched.requests)


def test_details_beside_the_page_are_loaded_from_the_disk(browser, four, tmp_path):
    report = write_report(four.folder, tmp_path, inline_max_bytes=0, chunk_bytes=20_000)
    with watching(browser, report) as watched:
        page = watched.page
        assert not [url for url in watched.requests if url.endswith(".js")]
        cell(page, "query-none", "ruff-unsafe").click()
        page.locator("#panel .timeline").wait_for()
        assert page.locator("#panel .diff .del").inner_text() == "-import os"
        assert [url for url in watched.requests if url.endswith(".js")]
        assert watched.is_clean(), (watched.complaints, watched.requests)


def test_details_that_were_left_behind_are_said_to_be_missing(browser, four, tmp_path):
    report = write_report(four.folder, tmp_path, inline_max_bytes=0)
    shutil.rmtree(tmp_path / "data")
    with watching(browser, report) as watched:
        cell(watched.page, "query-none", "ruff-unsafe").click()
        alert = watched.page.get_by_role("alert")
        alert.wait_for()
        assert 'Keep the folder "data" beside this page' in alert.inner_text()
