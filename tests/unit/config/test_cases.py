from __future__ import annotations

import pytest

from mst.config.cases import CaseFile
from mst.errors import CorruptFile
from mst.model.base import FileRef
from mst.model.case import Case, EvalPlan, GraderSpec


def cases(count: int = 3) -> list[Case]:
    return [Case(id=f"c{n}", dataset="d" if n % 2 else "e", input=f"ünï {n}") for n in range(count)]


def test_what_was_written_is_read_back(tmp_path):
    written = CaseFile.write(tmp_path / "cases.jsonl", iter(cases()))
    opened = CaseFile.open(tmp_path / "cases.jsonl")
    for file in (written, opened):
        assert list(file) == cases()
        assert file.ids == ["c0", "c1", "c2"]
        assert len(file) == 3
        assert "c1" in file
        assert "zzz" not in file
        assert [file.get(case_id) for case_id in ("c2", "c0")] == [cases()[2], cases()[0]]
    assert written.hash == opened.hash
    assert written.datasets == opened.datasets
    assert {name: record.case_count for name, record in opened.datasets.items()} == {"e": 2, "d": 1}


def test_the_hash_depends_on_contents_and_order(tmp_path):
    first, second, third = cases()
    hashes = {
        CaseFile.write(tmp_path / "a", order).hash
        for order in ([first, second, third], [second, first, third], [first, second], [first, second, third])
    }
    assert len(hashes) == 3


FILE = FileRef(path="a", sha256="0" * 64, size=0)


@pytest.mark.parametrize(
    "more",
    [
        {"judges": [GraderSpec(type="rubric")]},
        {"judge_reps": 3},
        {"assertions": [GraderSpec(type="command", files=[FILE])]},
        {"assertions": [GraderSpec(type="command", secrets=["KEY"])]},
        {"checks": FILE},
        {"client": "echo"},
        {"client_options": {"a": 1}},
    ],
)
def test_equipped_cases_are_those_that_bring_more_than_data_and_one_of_the_others(tmp_path, more):
    plain = [Case(id=f"p{n}", dataset="d", assertions=[GraderSpec(type="contains_text")]) for n in range(9)]
    one = Case(id="more", dataset="d", **more)
    CaseFile.write(tmp_path / "cases.jsonl", [*plain, one])
    file = CaseFile.open(tmp_path / "cases.jsonl")
    assert {case.id for case in file.equipped()} == {"p0", "more"}
    assert list(CaseFile.write(tmp_path / "few", [plain[0], one]).equipped()) == [plain[0], one]
    assert list(CaseFile.write(tmp_path / "all", [one]).equipped()) == [one]
    assert list(CaseFile.write(tmp_path / "none", []).equipped()) == []


def test_an_unknown_case_is_a_key_error(tmp_path):
    with pytest.raises(KeyError):
        CaseFile.write(tmp_path / "a", cases()).get("no")


def test_a_failing_source_leaves_nothing_behind(tmp_path):
    CaseFile.write(tmp_path / "cases.jsonl", cases(1))

    def failing():
        yield cases()[0]
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        CaseFile.write(tmp_path / "cases.jsonl", failing())
    assert [path.name for path in tmp_path.iterdir()] == ["cases.jsonl"]
    assert len(CaseFile.open(tmp_path / "cases.jsonl")) == 1


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda data: data[:-1], ":3: the line is cut off"),
        (lambda data: data[:-20], ":3: the line is cut off"),
        (lambda data: data.replace(b'"id":"c1"', b'"id":1'), ":2: not a case"),
        (lambda data: b"\xff\xfe\n" + data, ":1: not a case"),
        (lambda data: data + data[: data.index(b"\n") + 1], ":4: case 'c0' stands here a second time"),
    ],
)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, damage, expected):
    path = tmp_path / "cases.jsonl"
    CaseFile.write(path, cases())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptFile, match=expected):
        CaseFile.open(path)


def test_a_missing_file_is_corrupt(tmp_path):
    with pytest.raises(CorruptFile, match="missing"):
        CaseFile.open(tmp_path / "gone.jsonl")


def test_a_file_that_changes_while_in_use_is_noticed(tmp_path):
    path = tmp_path / "cases.jsonl"
    file = CaseFile.write(path, cases())
    CaseFile.write(path, reversed(cases()))
    with pytest.raises(CorruptFile):
        file.get("c0")


def test_memory_does_not_grow_with_the_size_of_cases(tmp_path):
    import tracemalloc

    def large():
        for n in range(300):
            yield Case(id=f"c{n}", dataset="d", input="x" * 100_000)

    tracemalloc.start()
    file = CaseFile.write(tmp_path / "cases.jsonl", large())
    total = sum(len(case.input) for case in file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 30_000_000
    assert peak < 6_000_000


def test_what_is_asked_of_every_case_is_known_without_reading_it(tmp_path):
    judged = Case(id="j", dataset="d", judges=[GraderSpec(type="rubric")], trials=3)
    given = [*cases(), judged, Case(id="r", dataset="d", judge_reps=2)]
    file = CaseFile.write(tmp_path / "cases.jsonl", given)
    (tmp_path / "cases.jsonl").unlink()
    plan = EvalPlan(name="e", config_id="0", content_hash="0", variants=[], baseline="a", trials=2)
    for case in given:
        assert file.digest(case.id) == case.digest
        assert file.has_judges(case.id) is case.has_judges
        assert file.trials_of(plan)[case.id] == plan.trials_of(case)
    assert set(file.trials_of(plan.model_copy(update={"trials_override": 7})).values()) == {7}


def test_cases_are_found_in_a_file_with_the_same_bytes_and_in_no_other(tmp_path):
    file = CaseFile.write(tmp_path / "a", cases())
    found = file.found_in(file.copy(tmp_path / "b").path)
    assert found is not None
    assert (found.path, found.ids, found.hash) == (tmp_path / "b", file.ids, file.hash)
    assert list(found) == cases()
    assert file.found_in(CaseFile.write(tmp_path / "c", cases(2)).path) is None
    assert file.found_in(tmp_path / "none") is None
