from __future__ import annotations

import pytest
from pydantic import ValidationError

from mst.providers.endpoints import Endpoint


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"model": "openai:gpt-x"}, ("openai", "gpt-x", "https://api.openai.com/v1", "OPENAI_API_KEY")),
        ({"model": "anthropic:c"}, ("anthropic", "c", "https://api.anthropic.com", "ANTHROPIC_API_KEY")),
        (
            {"model": "google:g"},
            ("google", "g", "https://generativelanguage.googleapis.com", "GOOGLE_API_KEY"),
        ),
        ({"model": "llama:8b", "base_url": "http://h/v1"}, ("openai", "llama:8b", "http://h/v1", None)),
        (
            {"model": "m", "base_url": "https://h/v1", "api_key": "GATE"},
            ("openai", "m", "https://h/v1", "GATE"),
        ),
        ({"model": "m", "provider": "google", "base_url": "http://h"}, ("google", "m", "http://h", None)),
        ({"model": "anthropic:m", "base_url": "http://h"}, ("anthropic", "m", "http://h", None)),
    ],
)
def test_an_endpoint_is_complete_by_its_defaults(written, expected):
    made = Endpoint.model_validate(written)
    assert (made.dialect, made.name, made.address, made.key_name) == expected


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"model": "gpt-x"}, "names no provider"),
        ({"model": "m", "base_url": "ftp://h"}, "base_url"),
        ({"model": "m", "base_url": "https://user:key@h"}, "base_url"),
        ({"model": "m", "base_url": "http://h", "api_key": "sk-not a name"}, "api_key"),
    ],
)
def test_half_an_endpoint_is_refused(written, says):
    with pytest.raises(ValidationError, match=says):
        Endpoint.model_validate(written)


def test_limits_are_named_by_provider_unless_told():
    assert Endpoint(model="openai:a").limit_name == "openai"
    assert Endpoint(model="openai:a", rate_limit="gateway").limit_name == "gateway"


def test_a_bare_text_is_a_model():
    assert Endpoint.model_validate("openai:a") == Endpoint(model="openai:a")
