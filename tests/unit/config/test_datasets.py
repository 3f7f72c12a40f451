from __future__ import annotations

import os

import pytest

JSONL = "name: x\ndatasets: [cases.jsonl]\nclient: echo\n"
CSV = "name: x\ndatasets: [cases.csv]\nclient: echo\n"
DIR = "name: x\ndatasets: [{dir: cases}]\nclient: echo\n"


def test_the_same_cases_come_out_of_every_format(eval_):
    eval_.write("cases.json", '{"cases": [{"id": "a", "input": "1", "expected": {"answer": "x"}, "tags": ["t", "u"]}]}')
    eval_.write("cases.jsonl", '{"id": "a", "input": "1", "expected": {"answer": "x"}, "tags": ["t", "u"]}\n\n')
    eval_.write("cases.csv", "id,input,expected.answer,tags\na,1,x,t; u\n")
    eval_.write("cases.toml", '[[cases]]\nid = "a"\ninput = "1"\ntags = ["t", "u"]\nexpected.answer = "x"\n')
    eval_.write("cases.yml", "- {id: a, input: '1', expected: x, tags: [t, u]}\n")
    digests = {
        eval_.load(f"name: x\ndatasets: [cases.{ending}]\nclient: echo\n").cases.hash
        for ending in ("json", "jsonl", "csv", "toml", "yml")
    }
    assert len(digests) == 1


def test_every_bad_line_of_jsonl_is_reported_with_its_place(eval_):
    eval_.write("cases.jsonl", '{"id": "a"}\n{"id": \n{"id": "b", "tagss": []}\n[1]\n{"id": "c", "input": NaN}\n{}\n')
    faults = eval_.faults(JSONL)
    assert [fault.split(": ")[0] for fault in faults] == [f"cases.jsonl:{n}" for n in (2, 3, 4, 5, 6)]
    assert "unknown key 'tagss' (did you mean 'tags'?)" in faults[1]


def test_csv_cells_have_the_types_of_their_keys(eval_):
    eval_.write(
        "cases.csv",
        'id,input,expected,metadata.cluster,trials,passThreshold,kind\na,"two\nlines",yes,fam,3,0.5,stay_quiet\nb,,,,,,\n',
    )
    a, b = eval_.load(CSV).cases
    assert (a.input, a.expected, a.family, a.trials, a.pass_threshold, a.kind) == (
        "two\nlines",
        {"answer": "yes"},
        "fam",
        3,
        0.5,
        "stay_quiet",
    )
    assert (b.input, b.expected, b.trials) == ("", {}, None)


def test_every_bad_row_of_csv_is_reported_with_its_line(eval_):
    eval_.write("cases.csv", 'id,input,trials\na,"x\ny",1\nb\nc,x,many\nd,x,0\n')
    faults = eval_.faults(CSV)
    assert [fault.split(": ")[0] for fault in faults] == ["cases.csv:4", "cases.csv:5", "cases.csv:6"]
    assert "1 cells, but 3 columns" in faults[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "cases.csv: empty"),
        ("id,id\na,b\n", "cases.csv:1: two columns have the same name"),
        ("id,inptu\na,b\n", "cases.csv:1: unknown key 'inptu' (did you mean 'input'?)"),
        ("id;input\na;b\n", "cases.csv:1: the cells are separated by ';'; save the file with commas"),
        ("id\tinput\na\tb\n", "cases.csv:1: the cells are separated by a tab; save the file with commas"),
        ('id,input\na,"b\n', "not a readable CSV file"),
        ("id,input,input.q\na,b,c\n", "'input' and 'input.q' exclude each other"),
    ],
)
def test_unusable_csv_files_are_refused(eval_, text, expected):
    eval_.write("cases.csv", text)
    assert expected in eval_.faults(CSV)[0]


def test_a_column_that_nobody_knows_is_one_fault_and_an_empty_one_is_none(eval_):
    rows = "".join(f"c{number},x,\n" for number in range(30))
    eval_.write("cases.csv", f"id,inptu,\n{rows}last,x,1\n")
    assert eval_.faults(CSV) == [
        "cases.csv:1: unknown key 'inptu' (did you mean 'input'?)",
        "cases.csv:1: unknown key ''",
    ]
    eval_.write("cases.csv", f"id,input,\n{rows}")
    assert len(eval_.load(CSV).cases) == 30


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_csv_file_that_is_not_utf8_is_refused_with_its_line(eval_, encoding):
    (eval_.folder / "cases.csv").write_bytes("id,input\na,b\nc,ü\n".encode(encoding))
    line = 3 if encoding == "latin-1" else 1
    assert eval_.faults(CSV)[0] == f"cases.csv:{line}: not UTF-8 text; save the file as UTF-8"


def test_a_folder_a_case_with_files_solution_and_checks(eval_):
    eval_.write("cases/fix-it/case.yaml", "input: Fix it.\n")
    eval_.write("cases/fix-it/files/a.py", "bad")
    eval_.write("cases/fix-it/files/sub/b.py", "b")
    eval_.write("cases/fix-it/files/__pycache__/a.pyc", "cache")
    eval_.write("cases/fix-it/solution/a.py", "good")
    eval_.write("cases/fix-it/checks.py", "def check(ctx): ...")
    eval_.write("cases/named/case.json", '{"id": "other-name"}')
    eval_.write("cases/.hidden/note.txt", "")
    eval_.write("cases/README.md", "")
    resolved = eval_.load(DIR)
    assert resolved.cases.ids == ["fix-it", "other-name"]
    case = resolved.cases.get("fix-it")
    assert [ref.path for ref in case.fixture] == ["a.py", "sub/b.py"]
    assert [ref.path for ref in case.solution] == ["a.py"]
    assert case.checks.path == "checks.py"
    assert resolved.files.locate(case.solution[0].sha256).read_text() == "good"
    assert resolved.cases.get("other-name").fixture is None


def test_a_plain_string_is_a_folder_or_a_file(eval_):
    eval_.write("cases/a/case.yaml", "")
    eval_.write("more.yaml", "- {id: b}\n")
    eval_.write("more2.yaml", "- {id: c}\n")
    resolved = eval_.load(
        "name: x\ndatasets: [cases, more.yaml, {file: more2.yaml, name: third}]\nclient: echo\n", cases=None
    )
    assert [(record.name, record.ref) for record in resolved.datasets] == [
        ("cases", "cases"),
        ("more", "more.yaml"),
        ("third", "more2.yaml"),
    ]


def test_all_faulty_case_folders_are_reported(eval_):
    eval_.write("cases/empty/README", "")
    eval_.write("cases/gone/case.yaml", "files: not-there\n")
    eval_.write("cases/two/case.yaml", "")
    eval_.write("cases/two/case.json", "{}")
    eval_.write("cases/typo/case.yaml", "# c\nexpcted: 1\n")
    faults = eval_.faults(DIR)
    assert len(faults) == 4
    assert faults[0] == "cases/empty: this case folder has no case.yaml (or case.json, case.toml)"
    assert faults[1] == "cases/gone/case.yaml:1: files: no folder 'not-there' beside case.yaml"
    assert "has case.yaml and case.json; keep one" in faults[2]
    assert faults[3].startswith("cases/typo/case.yaml:2: unknown key 'expcted' (did you mean 'expected'?)")


def test_an_empty_dataset_is_refused(eval_):
    (eval_.folder / "cases").mkdir()
    assert eval_.faults(DIR) == ["eval.yaml:2: datasets[0]: dataset 'cases' has no cases"]


def test_links_that_leave_the_fixture_are_refused_and_others_are_content(eval_):
    eval_.write("secret.txt", "outside")
    eval_.write("cases/a/case.yaml", "")
    eval_.write("cases/a/files/real.txt", "inside")
    (eval_.folder / "cases/a/files/link.txt").symlink_to("real.txt")
    case = eval_.load(DIR).cases.get("a")
    assert len({ref.sha256 for ref in case.fixture}) == 1
    (eval_.folder / "cases/a/files/out.txt").symlink_to("../../../secret.txt")
    assert "out.txt: a link that leaves its folder" in eval_.faults(DIR)[0]


@pytest.mark.parametrize("what", ["folder link", "dangling link", "pipe"])
def test_what_is_no_ordinary_file_is_refused(eval_, what):
    eval_.write("cases/a/case.yaml", "")
    eval_.write("cases/a/files/sub/real.txt", "inside")
    odd = eval_.folder / "cases/a/files/odd"
    if what == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to("sub" if what == "folder link" else "nothing")
    faults = eval_.faults(DIR)
    assert len(faults) == 1
    assert "files/odd: " in faults[0]


def test_graders_of_a_case_find_their_files_beside_the_case(eval_):
    eval_.write("cases/a/case.yaml", "judges: [{name: own, threshold: 0.5, python: './j.py:j'}]\n")
    eval_.write("cases/a/j.py", "def j(*a): ...")
    judge = eval_.load(DIR).cases.get("a").judges[0]
    assert [file.path for file in judge.files] == ["j.py"]
    assert judge.given == ["files", "name", "options", "threshold"]


def test_a_plugins_dataset_is_asked_for_its_cases(eval_, plugin):
    plugin(
        "data_plugin",
        """
        from mst.config.written import Written
        from mst.model.case import Case

        class Numbers:
            class Options(Written):
                count: int

            def __init__(self, options):
                self.count = options.count

            def default_name(self):
                return "numbers"

            def cases(self, context):
                for n in range(self.count):
                    yield Case(id=str(n), dataset=context.name), f"numbers/{n}"
        """,
        "[mst.datasets]\nacme/dataset/numbers = data_plugin:Numbers\n",
    )
    config = "name: x\ndatasets: [{acme/dataset/numbers: {count: 3}}]\nplugins: [acme]\nclient: echo\n"
    resolved = eval_.load(config)
    assert resolved.cases.ids == ["0", "1", "2"]
    assert resolved.datasets[0].ref == "acme/dataset/numbers"
    assert "unknown key 'cuont' (did you mean 'count'?)" in eval_.faults(config.replace("count: 3", "cuont: 3"))[0]
