"""Secrets disappear in every form in which programs print them."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from mst.process.redact import REDACTED, Redactor

SECRET = 'sk-1/2+3="q" \\ü\n9'
ENCODERS = {
    "plain": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 without padding": lambda s: base64.b64encode(s.encode()).decode().rstrip("="),
    "base64 url": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "json": lambda s: json.dumps({"key": s}),
    "json utf-8": lambda s: json.dumps({"key": s}, ensure_ascii=False),
    "json in json": lambda s: json.dumps(json.dumps(s)),
    "url": lambda s: quote(s, safe=""),
    "url path": quote,
    "form": quote_plus,
}


@pytest.mark.parametrize("encode", ENCODERS.values(), ids=ENCODERS.keys())
def test_every_encoding_of_a_secret_is_replaced(encode):
    shown = encode(SECRET)
    redactor = Redactor([SECRET])
    assert REDACTED in redactor.text(f"before {shown} after")
    assert encode("sk-1") not in redactor.text(shown)
    assert redactor.data_bytes(shown.encode()) == redactor.text(shown).encode()


@pytest.mark.parametrize("user", ["a:", "ab:", "abc:", ""])
@pytest.mark.parametrize("tail", ["", "z", "zz", "zzz"])
def test_a_secret_inside_a_longer_base64_text_is_replaced(user, tail):
    header = base64.b64encode(f"{user}tok-0123456789abcdef{tail}".encode()).decode()
    left = Redactor(["tok-0123456789abcdef"]).text(header)
    assert REDACTED in left
    assert len(left.replace(REDACTED, "")) <= 14


def test_data_is_redacted_in_keys_values_and_lists():
    redactor = Redactor(["hunter22"])
    assert redactor.data({"hunter22": ["a hunter22", {"n": 1, "x": None}], "t": (True, 1.5)}) == {
        REDACTED: [f"a {REDACTED}", {"n": 1, "x": None}],
        "t": [True, 1.5],
    }


def test_the_longer_of_two_nested_secrets_goes_as_a_whole():
    assert Redactor(["abc", "abcdef"]).text("abcdef abc") == f"{REDACTED} {REDACTED}"


def test_short_secrets_are_redacted_as_they_are():
    assert Redactor(["x1"]).text("is x1 here") == f"is {REDACTED} here"


def test_without_secrets_nothing_changes():
    redactor = Redactor(["", ""])
    value = {"a": ["b"]}
    assert not redactor
    assert redactor.data(value) is value
    assert redactor.text("abc") == "abc"
    assert redactor.data_bytes(b"abc") == b"abc"


def test_its_repr_does_not_tell():
    assert "hunter22" not in repr(Redactor(["hunter22"]))


@pytest.mark.parametrize("value", ["quo\"te'cana\\ry", "line1canary\nline2canary", "ключ-канарейка"])
def test_python_and_hex_forms_go_too(value):
    redactor = Redactor([value])
    for form in (repr(value), ascii(value), value.encode().hex(), value.encode().hex().upper()):
        assert redactor.text(f"KeyError({form})").count(REDACTED) == 1
    assert Redactor(["q7Z"]).text("71375a") == "71375a", "three bytes in hex are too common"
