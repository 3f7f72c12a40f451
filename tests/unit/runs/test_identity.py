"""Why two runs or trials cannot be compared, in words."""

from __future__ import annotations

import json

import pytest

from mst.collect.packages import packages_of
from mst.runs.folder import RunFolder
from mst.testing.commandline import call_mst

CONFIG = {
    "name": "e",
    "datasets": [{"file": "cases.yaml"}],
    "client": "command",
    "client_options": {"argv": ["cat"]},
    "variants": [{"name": "a"}, {"name": "b/c", "client_options": {"argv": ["cat", "-"]}}],
    "assertions": [{"contains_text": "x"}],
}
CASES = [{"id": f"c{n}", "input": f"x{n}"} for n in range(2)]


class Bench:
    """Makes runs in one results root and compares them on the command line."""

    def __init__(self, home, capsys):
        self.home, self.capsys = home, capsys

    def run(self, cases=None, **changes):
        config = {**CONFIG, **changes}
        (self.home / "cases.yaml").write_text(json.dumps(cases or CASES))
        (self.home / "eval.yaml").write_text(json.dumps(config))
        before = set(self.runs())
        said = call_mst(self.capsys, "run", self.home / "eval.yaml", "--output-dir", self.home / "r", "--no-grade")
        assert said.code == 0, said.err
        [made] = set(self.runs()) - before
        return RunFolder(made)

    def runs(self):
        return (self.home / "r" / "e" / "runs").glob("*") if (self.home / "r").exists() else []

    def diff(self, one, other, *options):
        return call_mst(self.capsys, "diff-identity", one, other, "--output-dir", self.home / "r", *options)


@pytest.fixture
def bench(tmp_path, capsys):
    return Bench(tmp_path, capsys)


def test_two_runs_of_the_same_are_comparable(bench):
    one, two = bench.run(), bench.run(trials=2)
    said = bench.diff(one.run_id, two.run_id)
    assert said.code == 0, said.out
    assert "comparable: every recorded part is equal (4 pairs of trials" in said.out


def test_each_differing_part_is_a_line(bench):
    one = bench.run()
    cases = [{**CASES[0], "input": "other"}, {**CASES[1], "expected": {"answer": "1"}}, {"id": "new", "input": "y"}]
    variants = [{"name": "a", "model": "m", "env": {"MODE": "fast"}}, CONFIG["variants"][1]]
    two = bench.run(cases, variants=variants, assertions=[{"contains_text": "y"}])
    said = bench.diff(one.run_id, two.run_id)
    assert said.code == 1
    lines = [line.strip() for line in said.out.splitlines()]
    assert "variant a: model: none in A, m in B (2 of 4 trials)" in lines
    assert "variant a: environment: MODE: none in A, fast in B (2 of 4 trials)" in lines
    assert "the case's input: differs in 1 case: c0" in lines
    assert "rest of the case (expected, graders, tags): differs in 1 case: c1" in lines
    assert "cases: only in B: new" in lines
    assert any(line.startswith("grader contains_text (config assertion): ") for line in lines)
    assert not any(line.startswith("prompt") for line in lines)
    assert "not comparable: 6 differences" in said.out


def test_a_package_of_another_version_is_a_line(bench, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    described = tmp_path / "asker.dist-info"
    described.mkdir()
    (described / "top_level.txt").write_text("asker\n")
    (bench.home / "mine.py").write_text("def f(asked):\n    return asked\n    import asker\n")
    options = {"client": "python", "client_options": {"function": "./mine.py:f", "files": ["mine.py"]}}
    runs = []
    for version in ("1.2", "1.3"):
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: asker\nVersion: {version}\n")
        packages_of.cache_clear()
        runs.append(bench.run(variants=[{"name": "a"}], **options))
    said = bench.diff(runs[0].run_id, runs[1].run_id)
    packages_of.cache_clear()
    assert said.code == 1
    assert "  variant a: package asker: 1.2 in A, 1.3 in B (2 of 2 trials)" in said.out.splitlines()


def test_two_trials_are_compared_by_name_or_by_file(bench):
    run = bench.run()
    named = bench.diff(f"{run.run_id}:a/c0/0", f"{run.run_id}:b/c/c0/0", "--json")
    assert named.code == 1
    [difference] = json.loads(named.out)["differences"]
    assert (difference["part"], difference["a"], difference["b"]) == ("options", '["cat"]', '["cat", "-"]')
    files = [run.path / "transcripts" / variant / "c0" / "0.json" for variant in ("a", "b%2Fc")]
    assert bench.diff(*files).out.splitlines()[2:] == [
        "not comparable: 1 difference (1 pair of trials looked at)",
        '  client options: argv: ["cat"] in A, ["cat", "-"] in B',
    ]


def test_an_attempt_without_an_identity_is_not_taken_for_equal(bench):
    run = bench.run()
    path = run.path / "transcripts" / "a" / "c0" / "0.json"
    record = json.loads(path.read_bytes())
    del record["identity"]
    path.write_text(json.dumps(record))
    said = bench.diff(run.run_id, run.run_id)
    assert said.code == 1
    assert "1 trial was collected in A by an mst that recorded none" in said.out


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("{run}:a/nope/0", "{run}:a/c0/0", "has no such trial"),
        ("{run}", "{run}:a/c0/0", "name two runs, or two trials"),
        ("nonsense", "{run}", "nonsense"),
    ],
)
def test_what_names_nothing_is_said(bench, one, other, words):
    run = bench.run().run_id
    said = bench.diff(one.format(run=run), other.format(run=run))
    assert said.code == 2
    assert words in said.err
