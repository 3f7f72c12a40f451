from __future__ import annotations

import json

import pytest

from mst.config.recorded import conceal, credential_paths, new_key

KEY = "00" * 32


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": "v4lue"},
        {"apiKey": "v4lue"},
        {"env": {"OPENAI_API_KEY": "v4lue", "DB_PASSWORD": "v4lue"}},
        {"headers": {"Authorization": "v4lue"}},
        {"auth_token": ["v4lue"]},
        {"argv": ["x", "--key=sk-proj-v4lue0123456789abcdef"]},
        {"argv": ["ghp_v4lue0123456789abcdefgh"]},
        {"url": "https://user:v4lue@host/"},
        {"url": "https://host/?access_token=v4lue123"},
        {"x": "Bearer v4lue0123456789"},
        {"pem": "-----BEGIN RSA PRIVATE KEY-----\nv4lue"},
    ],
)
def test_what_looks_like_a_credential_is_replaced(value):
    shown = json.dumps(conceal(value, KEY))
    assert "v4lue" not in shown
    assert "hmac:" in shown
    assert credential_paths(value)


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 5, "tokenizer": "gpt2", "tokens": "many"},
        {"env": {"KEY": {"secret": "API_KEY"}}},
        {"secrets": ["API_KEY"]},
        {"argv": ["task-runner-with-a-very-long-name", "--token-count"]},
        {"files": [{"path": "a.py", "sha256": "ab" * 32}]},
        {"key": "sort", "monkey": "x", "password": ""},
        {"url": "https://example.org/path?q=1"},
        None,
    ],
)
def test_everything_else_stays(value):
    assert conceal(value, KEY) == value
    assert credential_paths(value) == []


def test_equal_values_have_equal_hashes_under_one_key_only():
    one, two = conceal({"token": "a"}, KEY), conceal({"token": "a"}, KEY)
    assert one == two
    assert one != conceal({"token": "b"}, KEY)
    assert one != conceal({"token": "a"}, new_key())
    assert len(one["token"]) == len("hmac:") + 16
    assert new_key() != new_key()


def test_the_name_of_a_secret_is_no_credential_where_it_is_asked_for():
    options = {"api_key": "JUDGE_KEY", "members": [{"api_key": "v4lue"}]}
    assert credential_paths(options, names=["JUDGE_KEY"]) == [("members", 0, "api_key")]
