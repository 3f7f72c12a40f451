"""From output to transcript."""

from __future__ import annotations

import json

import pytest

from mst.clients.parsers import parse_jsonl, parse_text


def lines(*values):
    return b"\n".join(value if isinstance(value, bytes) else json.dumps(value).encode() for value in values)


@pytest.mark.parametrize(("output", "text"), [(b"a\nb\r\n\n", "a\nb"), (b"", ""), (b"\xff\n", "\ufffd")])
def test_text_is_the_answer_without_its_last_line_ends(output, text):
    transcript, unused = parse_text(output)
    assert (transcript.final_text, transcript.evidence, unused) == (text, "none", 0)


def test_events_and_the_closing_line_are_read_in_either_spelling():
    transcript, unused = parse_jsonl(
        lines(
            {"kind": "tool_call", "name": "t", "isError": False, "arguments": {"a": 1}},
            {"kind": "message", "name": "assistant", "output": "said"},
            {"final_text": "done", "usage": {"input_tokens": 3}},
        )
    )
    assert [event.kind for event in transcript.events] == ["tool_call", "message"]
    assert transcript.final_text == "done"
    assert transcript.usage.input_tokens == 3
    assert transcript.usage.output_tokens is None
    assert transcript.evidence == "observed"
    assert unused == 0


def test_without_a_closing_line_the_last_message_is_the_answer():
    transcript, _ = parse_jsonl(
        lines(
            {"kind": "message", "name": "assistant", "output": "one"},
            {"kind": "message", "name": "assistant", "output": "two"},
        )
    )
    assert transcript.final_text == "two"


def test_lines_that_can_not_be_used_are_counted():
    deep = b"[" * 100_000
    bad = [b"not json", b"[1]", {"kind": "dance", "name": "x"}, {"other": 1}, b"\xff\xfe", deep]
    transcript, unused = parse_jsonl(lines(*bad, {"finalText": "ok"}))
    assert transcript.final_text == "ok"
    assert unused == len(bad)
