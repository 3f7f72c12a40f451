"""What a shard's bundle holds: all that its work needs, nothing that it must not see, the same bytes each time."""

import base64
import json
import urllib.parse

import pytest

from mst.config.resolve import load_eval
from mst.errors import CorruptFile, DigestMismatch, RefusedError
from mst.model.keys import TrialKey
from mst.shards.bundle import Bundle, BundleInput, write_collect_bundle, write_grade_bundle
from mst.testing.sample_eval import write_sample_eval
from mst.testing.stored_run import collect_run, write_echo_eval

SECRET = 'sk-"planted" value/+&1'
FORMS = [
    SECRET,
    json.dumps(SECRET),
    base64.b64encode(SECRET.encode()).decode(),
    base64.b64encode(b"user:" + SECRET.encode()).decode(),
    urllib.parse.quote(SECRET, safe=""),
]


def given(resolved, **more):
    return BundleInput(
        plan=resolved.plan,
        datasets=resolved.datasets,
        run_id="20260101T000000Z-abcdef",
        files=resolved.files,
        seed=1,
        count=1,
        variants=[variant.name for variant in resolved.plan.variants],
        **more,
    )


def everything(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def collecting(into, config, **more):
    with load_eval(config) as resolved:
        return write_collect_bundle(into, given(resolved, **more), shard=0, cases=resolved.cases, trials=None)


def grading(into, config, run, **more):
    with load_eval(config) as resolved:
        return write_grade_bundle(
            into, given(resolved, **more), shard=0, cases=resolved.cases, run=run.run(), stored=run
        )


ANSWERS = {
    "a": {
        "expected": {"answer": "planted-answer"},
        "metadata": {"hint": "planted-hint"},
        "checks": "checks.py",
        "solution": "solution",
        "files": "files",
        "assertions": [{"contains_text": "planted-assertion"}],
        "judges": [{"name": "j", "command": {"argv": ["true", "planted-judge"]}}],
    }
}
PLANTED = [b"planted-answer", b"planted-hint", b"planted-check", b"planted-solution", b"planted-assertion",
           b"planted-judge", b"planted-config"]  # fmt: skip


@pytest.fixture
def answered(tmp_path):
    """An eval of the command client with answers of every kind."""
    home = tmp_path / "answered"
    for name, text in {
        "checks.py": "# planted-check",
        "solution/note.txt": "planted-solution",
        "files/note.txt": "fixture",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)

    def write(**config):
        return write_echo_eval(home, cases=ANSWERS, **config)

    return write


COMMAND = {
    "client": "command",
    "client_options": {"argv": ["true"]},
    "variants": [{"name": "one"}],
    "baseline": "one",
    "assertions": [{"contains_text": "planted-config"}],
}


def test_a_collect_bundle_holds_inputs_and_fixtures_and_no_answer(answered, tmp_path):
    collecting(tmp_path / "bundle", answered(**COMMAND))
    found = everything(tmp_path / "bundle")
    assert b"fixture" in found.values()
    whole = b"\n".join(found.values())
    assert b"say a" in whole
    assert [planted for planted in PLANTED if planted in whole] == []


def test_the_oracle_gets_solutions_and_answers_and_still_no_graders(answered, tmp_path):
    oracle = {**COMMAND, "client": "oracle", "client_options": {}}
    collecting(tmp_path / "bundle", answered(**oracle))
    whole = b"\n".join(everything(tmp_path / "bundle").values())
    seen = {planted for planted in PLANTED if planted in whole}
    assert seen == {b"planted-answer", b"planted-solution"}


def test_a_grade_bundle_holds_what_graders_need(answered, tmp_path):
    config = answered(**COMMAND)
    run = collect_run(config, tmp_path / "results")
    grading(tmp_path / "bundle", config, run)
    bundle = Bundle(tmp_path / "bundle")
    [case] = bundle.cases
    assert case.expected == {"answer": "planted-answer"}
    assert bundle.files.locate(case.checks.sha256).read_text() == "# planted-check"
    key = TrialKey(variant="one", case_id="a", trial=0)
    assert bundle.trial_bytes(key) == run.trial_bytes(key)
    assert list(bundle.scorable()) == [key]
    ours, theirs = bundle.subject(case, key), run.subject(case, key)
    assert ours.digest == theirs.digest
    [artifact] = ours.artifact_files
    assert ours.artifacts.locate(artifact.sha256).read_text() == "fixture"
    assert bundle.subject(case, key.model_copy(update={"trial": 5})) is None


def test_equal_inputs_make_equal_bundles(tmp_path):
    config = write_sample_eval(tmp_path / "eval", tmp_path / "marks", trials=1)
    run = collect_run(config, tmp_path / "results")
    first, second = (grading(tmp_path / name, config, run) for name in ("one", "two"))
    assert first == second
    assert everything(tmp_path / "one") == everything(tmp_path / "two")
    first, second = (collecting(tmp_path / name, config) for name in ("three", "four"))
    assert first == second
    assert everything(tmp_path / "three") == everything(tmp_path / "four")


def test_another_trial_makes_another_digest(config, run, tmp_path):
    first = grading(tmp_path / "one", config, run)
    path = run.trial_path(TrialKey(variant="plain", case_id="case-0", trial=0))
    path.write_bytes(path.read_bytes().replace(b'"finalText":"say', b'"finalText":"SAY'))
    assert grading(tmp_path / "two", config, run) != first


@pytest.mark.parametrize("form", FORMS, ids=["plain", "json", "base64", "base64 shifted", "url"])
@pytest.mark.parametrize("where", ["case", "fixture", "config"])
def test_a_secret_in_any_form_and_place_is_refused(tmp_path, form, where):
    home = tmp_path / "eval"
    (home / "files").mkdir(parents=True)
    (home / "files" / "note.txt").write_text(f"see {form} here" if where == "fixture" else "nothing")
    case = {"files": "files", "input": f"use {form}" if where == "case" else "nothing"}
    options = {"argv": ["echo", form if where == "config" else "nothing"]}
    config = write_echo_eval(
        home, cases={"a": case}, client="command", client_options=options, variants=[{"name": "one"}], baseline="one"
    )
    with pytest.raises(RefusedError, match="value of a secret") as refused:
        collecting(tmp_path / "bundle", config, secrets=["TOKEN"], secret_values=[SECRET])
    assert "planted" not in str(refused.value)


def test_names_of_secrets_are_sent_and_short_values_do_not_cry_wolf(config, tmp_path):
    collecting(tmp_path / "bundle", config, secrets=["TOKEN"], secret_values=["say"])
    assert Bundle(tmp_path / "bundle").record.secrets == ["TOKEN"]
    assert "secret_values" not in repr(BundleInput.__dataclass_fields__["secret_values"].repr)


def test_an_artifact_that_changed_since_is_not_sent(answered, tmp_path):
    config = answered(**COMMAND)
    run = collect_run(config, tmp_path / "results")
    [artifact] = (run.path / "artifacts").rglob("note.txt")
    artifact.write_text("changed")
    with pytest.raises(DigestMismatch, match=r"note\.txt: changed since"):
        grading(tmp_path / "bundle", config, run)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("bundle.json", lambda data: data[: len(data) // 2]),
        ("bundle.json", lambda data: data.replace(b'"bundle"', b'"plan"', 1)),
        ("cases.jsonl", lambda data: data[:-5]),
        ("cases.jsonl", lambda data: b"".join(data.splitlines(keepends=True)[:-1])),
        ("cases.jsonl", lambda data: data + data),
    ],
)
def test_a_spoiled_bundle_is_named(config, tmp_path, name, change):
    collecting(tmp_path / "bundle", config)
    path = tmp_path / "bundle" / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptFile, match="bundle"):
        list(Bundle(tmp_path / "bundle").cases)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("run/transcripts", lambda data: data[:-5]),
        ("run/transcripts.jsonl", lambda data: data[:-5]),
        ("run/transcripts.jsonl", lambda data: data.replace(b'"offset":0', b'"offset":-1')),
    ],
)
def test_a_spoiled_list_of_trials_is_named(answered, tmp_path, name, change):
    config = answered(**COMMAND)
    grading(tmp_path / "bundle", config, collect_run(config, tmp_path / "results"))
    path = tmp_path / "bundle" / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CorruptFile, match="transcripts"):
        Bundle(tmp_path / "bundle").trial_bytes(TrialKey(variant="one", case_id="a", trial=0))


def test_a_folder_without_a_record_is_no_bundle(tmp_path):
    with pytest.raises(CorruptFile, match="not a bundle"):
        Bundle(tmp_path)
