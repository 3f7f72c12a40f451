"""Every format against a golden file, against the results it was made from, and against what would hurt its readers."""

import csv
import io
import json
import os
import re
import tracemalloc
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.errors import InfrastructureError, UsageError
from mst.model.results import CaseRequest, CaseResult, TrialResult
from mst.model.run import MstVersion
from mst.model.score import CheckResult, GraderScore
from mst.report.exports import markdown, parquet
from mst.report.exports.csv import unshielded, written
from mst.report.exports.formats import FORMATS, TABLES, Asked, check_asked, replacing, write
from mst.report.exports.tables import ALL
from mst.report.view import trial_results

GOLDEN = Path(__file__).parent / "golden"
ENDINGS = {"junit": "junit.xml", "csv": "csv", "jsonl": "jsonl", "markdown": "md", "html": "html", "parquet": "parquet"}
CALM = {"unused-import", "format-call", "oserror-alias", "compare-true", "not-in", "raise-notimplemented", "query-none"}
"""Cases without hostile text, so that goldens are plain files; with every kind of trouble among them."""


def exported(name, view, **asked):
    out = io.BytesIO()
    write(name, view, out, Asked(**asked))
    return out.getvalue()


class Calm:
    """A made run without what differs from time to time, and of its cases only calm ones."""

    def __init__(self, folder):
        self.folder = folder

    def run(self):
        run = self.folder.run()
        variants = [variant.model_copy(update={"description": None}) for variant in run.variants]
        return run.model_copy(update={"mst": MstVersion(version="0.0.0"), "variants": variants})

    def summary(self):
        calm = {"timestamp": "2026-10-07T18:25:04.000Z", "previous_run": None}
        return self.folder.summary().model_copy(update=calm)

    def case_results(self):
        for case in self.folder.case_results():
            if case.id in CALM:
                yield self.tame(case)

    def tame(self, case):
        trials = [trial.model_copy(update={"error": self.plain(trial.error), "scores": self.scores(trial),
                                           "grading_error": self.plain(trial.grading_error)})
                  for trial in case.trial_results]  # fmt: skip
        return case.model_copy(update={"trial_results": trials})

    def scores(self, trial):
        return {name: score.model_copy(update={"error": self.plain(score.error),
                                               "checks": [self.check(check) for check in score.checks or []] or None})
                for name, score in trial.scores.items()}  # fmt: skip

    def check(self, check):
        return check.model_copy(update={"detail": self.plain(check.detail)})

    def plain(self, text):
        return None if text is None else text.partition("<")[0].strip()

    def preferences(self):
        return (record for record in self.folder.preferences() if record.case_id in CALM)

    def trial(self, key):
        return self.folder.trial(key)


@pytest.fixture(scope="module")
def calm(four):
    return Calm(four.folder)


@pytest.mark.parametrize("name", ["junit", "csv", "jsonl", "markdown"])
def test_a_format_is_written_as_it_was(calm, name):
    path = GOLDEN / f"export.{ENDINGS[name]}"
    found = exported(name, calm)
    if os.environ.get("MST_WRITE_GOLDEN"):
        path.write_bytes(found)
    assert found.decode() == path.read_bytes().decode()


def test_parquet_is_written_as_it_was(calm):
    table = pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(exported("parquet", calm)))
    schema = [[field.name, str(field.type), field.metadata[b"meaning"].decode()] for field in table.schema]
    found = json.dumps({"schema": schema, "rows": table.to_pylist()}, indent=1) + "\n"
    path = GOLDEN / "export.parquet.json"
    if os.environ.get("MST_WRITE_GOLDEN"):
        path.write_text(found)
    assert json.loads(found) == json.loads(path.read_text())


def test_html_is_the_report_in_one_file(four, tmp_path):
    page = exported("html", four.folder).decode()
    assert "mstData(" not in re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)
    assert 'id="index">' in page
    assert page.count("<!doctype html>") == 1
    assert json.loads(page.split('id="index">')[1].split("</script>")[0])["data"] is None


def expected(folder):
    """What a table of trials must say, read from the results by other means than the product's."""
    lines = (folder.path / "results.json").read_text().split("\n")[1:-2]
    for line in lines:
        case = json.loads(line.rstrip(","))
        for trial in case["trialResults"]:
            usage = trial.get("clientUsage") or {}
            yield {
                "variant": case["variant"],
                "case_id": case["id"],
                "trial": trial["trial"],
                "passed": trial.get("pass"),
                "case_passed": case.get("pass"),
                "error": trial.get("error"),
                "grading_error": trial.get("gradingError"),
                "limit_hit": trial.get("limitHit"),
                "duration_s": None if trial.get("failureKind") == "missing" else trial["durationMs"] / 1000,
                "input_tokens": usage.get("inputTokens"),
                "cost_usd": usage.get("totalCostUsd"),
                "tool_calls": known_calls(trial),
            }


def known_calls(trial):
    """None where nothing was seen, which is not the same as nothing being there."""
    found = len(trial.get("toolCallTrace", {}).get("calls", []))
    return found if found or trial.get("transcriptEvidence", "none") != "none" else None


def from_jsonl(data, table):
    return [json.loads(line) for line in data.decode().split("\n") if line]


def from_csv(data, table):
    kinds = {column.name: column.kind for column in ALL[table].columns}
    read = {"text": unshielded, "integer": int, "number": float, "flag": lambda text: text == "true"}
    rows = csv.DictReader(io.StringIO(data.decode(), newline=""))
    return [{name: read[kinds[name]](cell) if cell else None for name, cell in row.items()} for row in rows]


def from_parquet(data, table):
    return pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(data)).to_pylist()


READERS = {"jsonl": from_jsonl, "csv": from_csv, "parquet": from_parquet}


@pytest.mark.parametrize("name", READERS)
def test_trials_read_back_equal_the_results(four, repeated, name):
    for made in (four, repeated):
        rows = READERS[name](exported(name, made.folder), "trials")
        wanted = list(expected(made.folder))
        assert len(rows) == len(wanted) > 0
        assert [{key: row[key] for key in want} for row, want in zip(rows, wanted, strict=True)] == wanted


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", READERS)
def test_all_tabular_formats_hold_the_same_rows_and_columns(four, name, table):
    rows = READERS[name](exported(name, four.folder, table=table), table)
    wanted = list(ALL[table].rows(four.folder, Asked()))
    assert rows == wanted
    assert list(rows[0]) == [column.name for column in ALL[table].columns]


def test_scores_have_a_row_for_each_grader_of_each_trial(four):
    rows = list(ALL["scores"].rows(four.folder, Asked()))
    (owed,) = [row for row in rows if row["error"] is not None]
    assert (owed["grader"], owed["variant"], owed["passed"], owed["error_kind"]) == (
        "judge.tone", "pyupgrade", None, "grader",
    )  # fmt: skip
    scores = sum(len(trial.scores) for case in four.folder.case_results() for trial in trial_results(case))
    assert len(rows) == scores


def test_a_table_of_one_variant_has_only_its_rows(four):
    rows = from_jsonl(exported("jsonl", four.folder, variants=("ruff",)), "trials")
    assert {row["variant"] for row in rows} == {"ruff"}
    assert len(rows) == 24
    assert {row["candidate"] for row in ALL["preferences"].rows(four.folder, Asked(variants=("ruff",)))} == {"ruff"}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", "'=1"])
def test_no_text_is_a_formula_in_a_spreadsheet(text):
    cell = written(text, "text")
    assert cell == f"'{text}"
    assert unshielded(cell) == text


@given(st.text())
def test_text_in_csv_reads_back(text):
    cell = written(text, "text")
    assert unshielded(cell) == text
    assert cell[:1] not in set("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


@pytest.mark.parametrize(
    ("value", "kind", "cell"),
    [
        (-1.5, "number", "-1.5"),
        (0.1 + 0.2, "number", "0.30000000000000004"),
        (-3, "integer", "-3"),
        (False, "flag", "false"),
        (None, "text", ""),
    ],
)
def test_numbers_are_never_shielded_and_lose_no_digit(value, kind, cell):
    assert written(value, kind) == cell


SUITE = {"id", "name", "package", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"}
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def junit_faults(data):
    """What a strict reader of Ant's schema would say against a document."""
    root = ET.fromstring(data)
    if root.tag != "testsuites":
        yield f"the root is {root.tag}"
    for suite in root:
        tags = [child.tag for child in suite]
        if suite.tag != "testsuite" or set(suite.attrib) != SUITE or not TIMESTAMP.fullmatch(suite.get("timestamp")):
            yield f"suite {suite.attrib}"
        if tags != ["properties", *["testcase"] * (len(tags) - 3), "system-out", "system-err"]:
            yield f"order {tags}"
        if any(prop.tag != "property" or set(prop.attrib) != {"name", "value"} for prop in suite[0]):
            yield "properties"
        cases = suite.findall("testcase")
        counted = {
            "tests": len(cases),
            **{f"{word}s": len(suite.findall(f"testcase/{word}")) for word in ("failure", "error")},
        }
        counted["skipped"] = len(suite.findall("testcase/skipped"))
        if any(int(suite.get(word)) != number for word, number in counted.items()):
            yield f"totals {suite.attrib}, found {counted}"
        for case in cases:
            if set(case.attrib) != {"name", "classname", "time"} or float(case.get("time")) < 0 or len(case) > 1:
                yield f"case {case.attrib}"
            for child in case:
                needed = {"message"} if child.tag == "skipped" else {"message", "type"}
                if child.tag not in {"failure", "error", "skipped"} or set(child.attrib) != needed or len(child):
                    yield f"outcome {child.tag} {child.attrib}"
    for word in ("tests", "failures", "errors", "skipped"):
        if int(root.get(word)) != sum(int(suite.get(word)) for suite in root):
            yield f"{word} of all suites"


@pytest.mark.parametrize("made", ["four", "repeated", "alone"])
def test_junit_has_the_structure_that_ci_systems_read(made, request):
    folder = request.getfixturevalue(made).folder
    assert list(junit_faults(exported("junit", folder))) == []


def test_junit_tells_failures_from_errors_and_skips(four):
    root = ET.fromstring(exported("junit", four.folder))
    suites = {suite.get("name"): suite for suite in root}
    for case in four.folder.case_results():
        (found,) = [one for one in suites[case.variant] if one.get("name", "")[:12] == case.id[:12].strip()] or [None]
        if found is None:
            continue
        tags = [child.tag for child in found]
        assert tags == ([] if case.passed else ["failure"] if case.passed is False else tags)
    kinds = {child.get("type") for case in suites["ruff"].iter("testcase") for child in case}
    assert {"missing", "infrastructure", "check"} <= kinds
    assert suites["ruff"].get("skipped") == "1"
    assert suites["ruff"].find("properties/property[@name='verdict']").get("value") == "better"


def test_junit_of_repeated_trials_says_how_many_passed(repeated):
    root = ET.fromstring(exported("junit", repeated.folder))
    messages = [failure.get("message") for failure in root.iter("failure")]
    assert any(re.match(r"[12] of 3 scored trials passed, 100% needed; ", message) for message in messages)


def test_junit_holds_no_character_that_xml_refuses(four):
    text = exported("junit", four.folder).decode()
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", text)
    assert "<script>" not in text


def test_a_comment_has_at_most_60_lines_however_large_the_run(made_runs, tmp_path):
    shape = made_runs.Shape(variants=["autoflake", *(f"v{number}" for number in range(15))], cases=8)
    made = made_runs.build_run(tmp_path, shape)
    text = exported("markdown", made.folder).decode()
    assert len(text.splitlines()) <= 60
    assert text.splitlines()[-1].startswith("<sub>run `")
    assert "| and 4 more |" in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_a_comment_names_the_regressions(four):
    lines = exported("markdown", four.folder).decode().splitlines()
    (line,) = [line for line in lines if "regressions" in line]
    assert line.endswith("`query-none`")


NAMES = ["@octocat", "#12", "a|b", "`x`", "**b**", "[l](https://e.x)", "<b>", "&lt;", "https://e.x", "www.e.x", "a@b.c"]


def test_a_comment_renders_as_github_reads_it(four):
    parser = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False, "html": True})
    page = parser.render(exported("markdown", four.folder).decode())
    assert page.count("<table>") == 1
    assert page.count("<tr>") == 1 + len(four.summary.variants)
    assert "<blockquote>" in page
    assert (
        page.index("<details>")
        < page.index("<code>query-none</code>", page.index("<details>"))
        < page.index("</details>")
    )
    tags = set(re.findall(r"<(\w+)", re.sub(r"<code>.*?</code>", "", page)))
    harmless = "h3 blockquote p ul li table thead tbody tr th td strong details summary sub br"
    assert tags <= set(harmless.split())


@pytest.mark.parametrize("name", NAMES)
def test_names_do_nothing_in_a_comment(name):
    parser = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    table = f"| a | b |\n| --- | --- |\n| {markdown.code(name, in_table=True)} | c |\n"
    cells = re.findall(r"<td>(.*?)</td>", parser.render(table))
    assert len(cells) == 2
    assert re.fullmatch(r"<code>[^<>]*</code>", cells[0])
    said = parser.renderInline(f"before {markdown.plain(name)} after")
    assert not re.search(r"<(?!!-- -->)", said), said
    assert not re.search(r"[@#]\w|(https?://|www\.)\w", re.sub(r"&#?\w+;", "", said)), said


class Many:
    """A view of any number of trials that are made as they are read."""

    def __init__(self, calm, trials):
        self.calm, self.trials = calm, trials
        score = GraderScore(
            passed=False, details="no", checks=[CheckResult(name="clean", passed=False, detail="x" * 200)]
        )
        trial = TrialResult(trial=0, passed=False, scores={"checks": score, "judge.a": score}, duration_ms=5)
        request = CaseRequest(description="d", tool_variant_id="v", trials=1, pass_threshold=1, client="echo")
        self.case = CaseResult(
            id="", variant="ruff", dataset_name="d", passed=False, request=request, scores={}, duration_ms=5,
            trial_results=[trial],
        )  # fmt: skip

    def run(self):
        return self.calm.run()

    def summary(self):
        return self.calm.summary()

    def case_results(self):
        return (self.case.model_copy(update={"id": f"case-{number}"}) for number in range(self.trials))

    def preferences(self):
        return iter(())


class Nowhere(io.RawIOBase):
    def __init__(self):
        super().__init__()
        self.written = 0

    def writable(self):
        return True

    def write(self, data):
        self.written += len(data)
        return len(data)

    def tell(self):
        return self.written


def peak_bytes(name, calm, trials):
    write(name, Many(calm, 10), Nowhere(), Asked())
    tracemalloc.start()
    try:
        out = Nowhere()
        write(name, Many(calm, trials), out, Asked())
        assert out.written > trials
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["csv", "jsonl", "junit", "parquet"])
def test_memory_does_not_grow_with_the_trials(calm, name, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 250)
    if name == "parquet":
        pytest.importorskip("pyarrow")
    fewer, more = (peak_bytes(name, calm, trials) for trials in (1_500, 5_000))
    assert more < fewer + 300_000


def half_written(path):
    with replacing(path) as stream:
        stream.write(b"half")
        raise ZeroDivisionError


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError):
        half_written(path)
    assert [one.name for one in tmp_path.iterdir()] == ["out.csv"]
    assert path.read_bytes() == b"before"
    with replacing(path) as stream:
        stream.write(b"after")
    assert path.read_bytes() == b"after"


def test_a_place_that_cannot_be_written_is_said_before_and_after(tmp_path, monkeypatch):
    for wrong in (tmp_path, tmp_path / "none" / "x.csv"):
        with pytest.raises(UsageError, match="-o"), replacing(wrong):
            pytest.fail("nothing should be written")
    with pytest.raises(InfrastructureError, match="full"), replacing(tmp_path / "x.csv"):
        raise OSError(28, "the disk is full")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "asked", "says"),
    [
        ("junit", {"table": "scores"}, "--table"),
        ("html", {"variants": ("a",)}, "--variant"),
        ("csv", {"variants": ("c",)}, "the run has a, b"),
    ],
)
def test_what_a_format_cannot_do_is_refused(name, asked, says):
    with pytest.raises(UsageError, match=says):
        check_asked(name, Asked(**asked), ["a", "b"])


def test_a_missing_extra_is_named(calm, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"mst\[parquet\]"):
        exported("parquet", calm)


def test_the_reference_lists_every_format_and_column():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "exports.md").read_text()
    for name in FORMATS:
        assert f"`{name}`" in page
    for name, table in ALL.items():
        assert f"`--table {name}`" in page or name == "trials"
        for column in table.columns:
            assert f"| `{column.name}` | {column.kind} | {column.meaning} |" in page
