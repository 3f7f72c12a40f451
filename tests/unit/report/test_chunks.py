import json

import pytest

from mst.report.chunks import ChunkWriter, script_json


def test_script_json_holds_no_markup_and_reads_back_the_same():
    value = {"</script><!--": "<script>\u2028&\u2029", "n": [None, 1.5, True]}
    text = script_json(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


def test_not_a_number_is_refused_since_browsers_cannot_read_it():
    with pytest.raises(ValueError, match="JSON compliant"):
        script_json(float("nan"))


def test_entries_are_found_in_the_chunk_that_was_said(tmp_path):
    with ChunkWriter(tmp_path / "data", chunk_bytes=100) as chunks:
        where = {f"t{number}": chunks.add(f"t{number}", {"text": "x" * 40}) for number in range(7)}
        chunks.finish()
        read = {number: json.loads(text) for number, text in chunks.texts()}
    assert chunks.count == len(read) > 1
    assert all(read[number][key] == {"text": "x" * 40} for key, number in where.items())


def test_published_scripts_carry_their_number_and_text(tmp_path):
    with ChunkWriter(tmp_path / "data") as chunks:
        chunks.add("t0", {"__proto__": "</script>"})
        chunks.finish()
        name = chunks.publish()
    script = (tmp_path / "data" / name / "0.js").read_text()
    assert script.startswith('mstData(0,"')
    assert "</script>" not in script
    argument = json.loads(script[len("mstData(0,") : -len(");\n")])
    assert json.loads(argument) == {"t0": {"__proto__": "</script>"}}


def test_nothing_is_left_behind_when_writing_fails(tmp_path):
    def write():
        with ChunkWriter(tmp_path / "data", chunk_bytes=10) as chunks:
            chunks.add("t0", "x" * 50)
            chunks.add("t1", float("inf"))

    with pytest.raises(ValueError, match="JSON compliant"):
        write()
    assert list(tmp_path.iterdir()) == []
