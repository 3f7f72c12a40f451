"""Trials that others collected: what is taken over of each format, and one clear line about what cannot be read."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from mst.clients.imports.client import Import
from mst.clients.imports.index import index_of_paths
from mst.clients.imports.records import ImportFault
from mst.config.files import IndexedFiles
from mst.errors import ConfigError
from mst.model.case import Case, Variant
from mst.testing.client import trial_records

SAMPLES = Path(__file__).parents[2] / "data/imports"
WAITER = "mockllm/waiter"


def index(*paths, **options):
    return index_of_paths(paths, **{"format": "auto", "case_id": None, **options})


def one(path, model, case_id, trial=0, prompt=None, **options):
    name, recorded = index(path, **options).find(model, prompt, case_id, trial)
    assert name == path.name
    return recorded


def lines(tmp_path, *rows, name="r.jsonl"):
    path = tmp_path / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def take(tmp_path, path, case, *, trial=0, model=None, **options):
    """The trial record that collecting a case gives."""
    files = IndexedFiles()
    ref = files.add(path.parent, path.name)
    variant = Variant(name="v", client="import", model=model, client_options={"files": [ref.to_dict()], **options})

    (record,) = trial_records(Import, variant, [case], tmp_path, trial=trial, files=files)
    return record, Import(variant).check_files(files)


def case(case_id, text=""):
    return Case(id=case_id, dataset="d", input=text)


@pytest.mark.parametrize(("file", "model"), [("menu.eval", WAITER), ("menu.json", "mockllm/cook")])
def test_a_log_of_inspect_becomes_events_answer_and_usage(file, model):
    found = one(SAMPLES / file, model, "soup")
    assert (found.input, found.expected, found.metadata) == ("What is the price of soup?", "7", {"cluster": "hot"})
    assert [(event.kind, event.name) for event in found.events] == [
        ("message", "assistant"),
        ("tool_call", "price"),
        ("message", "assistant"),
    ]
    call = found.events[1]
    assert (call.arguments, call.output, call.is_error) == ({"dish": "soup"}, "soup costs 7", False)
    assert (found.final_text, found.error, found.limit_hit) == ("It is 7.", None, None)
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.turns) == (31, 8, 2)
    assert found.scores == {"includes": "C"}
    assert found.duration_ms > 0


def test_ids_that_are_numbers_and_errors_of_tools_are_kept():
    found = one(SAMPLES / "menu.eval", WAITER, "2", 1)
    assert found.expected == "8"
    assert (found.events[1].output, found.events[1].is_error) == ("no such dish", True)


def test_a_sample_at_its_limit_is_graded_as_it_stands(tmp_path):
    record, faults = take(tmp_path, SAMPLES / "menu.eval", case("long"))
    assert faults == []
    assert (record.status, record.limit_hit, record.error_kind) == ("completed", "turns", None)
    assert "Message limit exceeded" in record.transcript.error
    assert record.transcript.events[-1].output is None, "a call that was not made has no answer"


def test_a_sample_that_broke_there_is_no_wrong_answer_here(tmp_path):
    record, _ = take(tmp_path, SAMPLES / "menu.eval", case("broken"))
    assert (record.status, record.error_kind, record.infrastructure_error) == ("incomplete", None, False)
    assert "the kitchen is closed" in record.error


def test_a_trial_knows_where_it_is_from(tmp_path):
    record, _ = take(tmp_path, SAMPLES / "menu.eval", case("soup", "What is the price of soup?"), trial=1)
    source = record.client_metadata["importedFrom"]
    assert (source["file"], source["model"], source["case"]) == ("menu.eval", WAITER, "soup")
    assert record.client_metadata["reportedScores"] == {"includes": "C"}
    assert record.transcript.evidence == "observed"
    assert record.client_diagnostics is None
    other, _ = take(tmp_path, SAMPLES / "menu.eval", case("soup", "What is soup?"))
    assert other.client_diagnostics == {"inputDiffers": "What is the price of soup?"}


def test_evidence_is_as_declared_and_none_without_events(tmp_path):
    record, _ = take(tmp_path, SAMPLES / "menu.eval", case("soup"), evidence="structured")
    assert record.transcript_evidence == "structured"
    path = lines(tmp_path, {"id": "a", "finalText": "x"})
    assert take(tmp_path, path, case("a"), evidence="structured")[0].transcript_evidence == "none"


@pytest.mark.parametrize(("case_id", "trial", "says"), [("tea", 0, "is not in the files"), ("soup", 2, "trials 0, 1")])
def test_a_trial_that_is_not_there_is_incomplete(tmp_path, case_id, trial, says):
    record, _ = take(tmp_path, SAMPLES / "menu.eval", case(case_id), trial=trial)
    assert (record.status, record.error_kind) == ("incomplete", None)
    assert says in record.error


@pytest.mark.parametrize("file", ["promptfoo.json", "promptfoo.jsonl"])
def test_output_of_promptfoo_becomes_trials_by_provider(tmp_path, file):
    path = SAMPLES / file
    found = index(path)
    assert list(found.models) == ["echo", "closed", "waiter"] or set(found.models) == {"echo", "closed", "waiter"}
    assert set(found.cases) == {"soup", "pie"}
    prompt = "What is the price of {{dish}}?"
    assert found.trials("waiter", prompt, "soup") == [0, 1], "repeats are trials"
    record, _ = take(tmp_path, path, case("soup"), model="waiter")
    assert (record.status, record.transcript.final_text) == ("completed", "It is 7.")
    assert record.client_metadata["reportedScores"] == {"promptfoo": {"pass": True, "score": 1}}
    assert record.transcript.usage is None, "zeros of a provider that counts nothing are not known"
    wrong, _ = take(tmp_path, path, case("pie"), model="waiter")
    assert (wrong.status, wrong.error) == ("completed", None), "a failed assertion of theirs is none of ours"
    broke, _ = take(tmp_path, path, case("soup"), model="closed")
    assert (broke.status, broke.error_kind) == ("incomplete", None)
    assert broke.error == "Error: Command failed: sh broken.sh"


def test_a_rows_case_is_found_where_the_user_says_or_by_its_variables(tmp_path):
    assert set(index(SAMPLES / "promptfoo.json", case_id="vars.dish").cases) == {"soup", "pie"}
    document = json.loads((SAMPLES / "promptfoo.json").read_text())
    for row in document["results"]["results"]:
        row["testCase"] = {}
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document))
    found = index(path)
    assert len(found.cases) == 2
    assert all(name.startswith("vars-") for name in found.cases)
    with pytest.raises(ImportFault, match=r"p\.json: the row at byte \d+ has no case ID at 'vars.no'"):
        index(path, case_id="vars.no")


def test_a_row_without_a_provider_is_none_of_promptfoo(tmp_path):
    path = lines(tmp_path, {"testCase": {}, "output": "x"})
    with pytest.raises(ImportFault, match=r"r\.jsonl: no row of promptfoo \(at byte 0\): it has no 'provider'"):
        index(path, format="promptfoo")


def test_json_lines_hold_all_of_a_trial(tmp_path):
    event = {"kind": "tool_call", "name": "price", "arguments": {"dish": "soup"}, "output": "7", "isError": False}
    full = {
        "caseId": "soup", "model": "m", "trial": 3, "input": "?", "expected": "7", "finalText": "It is 7.",
        "events": [event], "usage": {"inputTokens": 5, "outputTokens": 2}, "durationMs": 12.5, "metadata": {"a": 1},
        "scores": {"theirs": 1}, "limitHit": "tokens",
    }  # fmt: skip
    path = lines(tmp_path, full, "", {"id": 7, "model": "m", "output": "x"}, {"id": 7, "model": "m", "output": "y"})
    found = index(path)
    assert (list(found.models), list(found.cases)) == (["m"], ["soup", "7"])
    assert found.trials("m", None, "7") == [0, 1]
    recorded = found.find("m", None, "soup", 3)[1]
    assert (recorded.final_text, recorded.events[0].output, recorded.usage.input_tokens) == ("It is 7.", "7", 5)
    assert (recorded.limit_hit, recorded.duration_ms, recorded.scores) == ("tokens", 12.5, {"theirs": 1})
    assert found.find("m", None, "7", 1)[1].final_text == "y"


def test_a_line_with_nothing_to_grade_is_no_wrong_answer(tmp_path):
    path = lines(tmp_path, {"id": "a"}, {"id": "b", "error": "crashed", "errorKind": "agent", "finalText": "half"})
    record, _ = take(tmp_path, path, case("a"))
    assert (record.status, record.error_kind) == ("incomplete", None)
    record, _ = take(tmp_path, path, case("b"))
    assert (record.status, record.error_kind, record.transcript.final_text) == ("error", "agent", "half")


def test_a_file_of_several_models_needs_a_variants_choice(tmp_path):
    path = lines(tmp_path, {"id": "a", "model": "x", "output": "1"}, {"id": "a", "model": "y", "output": "2"})
    assert take(tmp_path, path, case("a"), model="y")[0].transcript.final_text == "2"
    record, faults = take(tmp_path, path, case("a"))
    assert faults == ["model: say which model's trials to take; the files have 'x', 'y'"]
    assert (record.error_kind, record.error) == ("harness", faults[0])
    _, faults = take(tmp_path, path, case("a"), model="z")
    assert faults == ["model: no trials of the model 'z'; the files have 'x', 'y'"]


def test_prompts_are_told_apart(tmp_path):
    rows = [{"id": "a", "prompt": label, "output": label} for label in ("short", "long")]
    path = lines(tmp_path, *rows)
    assert take(tmp_path, path, case("a"), prompt="long")[0].transcript.final_text == "long"
    assert "client_options.prompt: say which prompt's" in take(tmp_path, path, case("a"))[1][0]


def test_the_same_trial_twice_is_refused(tmp_path):
    path = tmp_path / "again.eval"
    shutil.copy(SAMPLES / "menu.eval", path)
    with pytest.raises(ImportFault, match=r"menu\.eval and again\.eval: trial 0 of case .* is there twice"):
        index(SAMPLES / "menu.eval", path)
    with pytest.raises(ImportFault, match=r"r\.jsonl: trial 0 of case 'a' by 'unnamed' is there twice"):
        index(lines(tmp_path, *[{"id": "a", "trial": 0, "output": "x"}] * 2))


def changed(tmp_path, name, change):
    data = (SAMPLES / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(change(data))
    return path


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("menu.eval", lambda data: data[: len(data) // 2], "damaged or cut off"),
        ("menu.eval", lambda data: b"", "the file is empty"),
        (
            "menu.eval",
            lambda data: data.replace(b"er.json", b"ee.json").replace(b"rt.json", b"tt.json"),
            "no header.json",
        ),
        ("menu.json", lambda data: data[: len(data) // 2], "cut off, or not valid JSON"),
        ("menu.json", lambda data: data.replace(b'"version": 2', b'"version": 9'), "version 9 of Inspect's logs"),
        ("menu.json", lambda data: data.replace(b'"eval":', b'"evil":'), "no results.results"),
        ("menu.json", lambda data: data.replace(b'"model": "mockllm/cook"', b'"model": ""'), "names no model"),
        ("menu.json", lambda data: data.replace(b"cook", b"c\xffok"), "not UTF-8"),
        ("menu.json", lambda data: b"[1, 2]", "no format that is known"),
        ("menu.json", lambda data: b'{"a": 1}', "no format that is known"),
        ("menu.json", lambda data: b'{"a": ' + b"[" * 100_000, "nested too deep"),
        ("promptfoo.json", lambda data: data[:-3000], "cut off"),
        ("promptfoo.json", lambda data: data.replace(b'"version": 3', b'"version": 2'), "version 2 of promptfoo"),
        ("promptfoo.jsonl", lambda data: data[:-100], "promptfoo.jsonl:12: not valid JSON"),
    ],
)
def test_a_file_that_cannot_be_read_gives_one_line_with_its_name(tmp_path, name, change, says):
    with pytest.raises(ImportFault) as raised:
        index(changed(tmp_path, name, change))
    assert says in str(raised.value)
    assert str(raised.value).startswith(name)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{", "r.jsonl:2: not valid JSON"),
        ([1], "r.jsonl:2: should be a JSON object"),
        ({"output": "x"}, "r.jsonl:2: no case ID"),
        ({"id": "", "output": "x"}, "r.jsonl:2 has no case ID at 'id'"),
        ({"id": "b", "events": [{"kind": "x"}]}, "r.jsonl:2: events: "),
        ({"id": "b", "events": 7}, "r.jsonl:2: events should be a list"),
        ({"id": "b", "errorKind": "user"}, "r.jsonl:2: errorKind should be"),
        ({"id": "b", "limitHit": "luck"}, "r.jsonl:2: limitHit should be one of"),
    ],
)
def test_a_bad_line_is_named(tmp_path, row, says):
    with pytest.raises(ImportFault) as raised:
        index(lines(tmp_path, {"id": "a", "output": "x"}, row))
    assert says in str(raised.value)


def test_a_damaged_sample_is_found_when_it_is_read(tmp_path):
    path = tmp_path / "menu.eval"
    data = bytearray((SAMPLES / "menu.eval").read_bytes())
    with zipfile.ZipFile(SAMPLES / "menu.eval") as archive:
        info = archive.getinfo("samples/soup_epoch_1.json")
    data[info.header_offset + 200] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ImportFault, match=r"menu\.eval: samples/soup_epoch_1\.json is damaged"):
        one(path, WAITER, "soup")
    assert one(path, WAITER, "2").final_text == "I cannot say."
    assert take(tmp_path, path, case("soup"))[0].error_kind == "harness"


def test_an_archive_with_other_compression_and_without_its_end_is_read(tmp_path):
    """Older logs are deflated; one that was not finished has its start and no header."""
    path = tmp_path / "old.eval"
    eval_ = {"version": 2, "eval": {"model": "m"}}
    sample = {"id": "a", "epoch": 1, "messages": [], "output": {"completion": "x"}}
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps(eval_))
        archive.writestr("samples/a_epoch_1.json", json.dumps(sample))
    assert one(path, "m", "a").final_text == "x"


def test_what_inspect_moved_out_of_messages_is_put_back(tmp_path):
    sample = {
        "id": "a", "epoch": 1, "attachments": {"h1": "a very long text"}, "target": ["x", "y"],
        "input": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "attachment://h1"}],
        "messages": [{"role": "assistant", "content": [{"type": "text", "text": "attachment://h1"}]}],
        "output": {"choices": [{"message": {"content": [{"type": "reasoning"}, {"type": "text", "text": "done"}]}}]},
    }  # fmt: skip
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": 2, "eval": {"model": "m"}, "samples": [sample]}))
    found = one(path, "m", "a")
    assert found.input == "system: Be kind.\n\nuser: a very long text"
    assert found.events[0].output == "a very long text"
    assert (found.final_text, found.expected) == ("done", "x\ny")


def test_options_are_checked():
    with pytest.raises(ConfigError, match=r"client_options\.files"):
        Import(Variant(name="v", client="import", client_options={"files": []}))
    with pytest.raises(ConfigError, match=r"client_options\.case_id"):
        Import(Variant(name="v", client="import", client_options={"files": ["x"], "case_id": "a..b"}))
