from __future__ import annotations

import pytest
from pydantic import ValidationError

from mst.judges.endpoints import Endpoint, ModelOptions, secret_names


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


def test_providers_are_models_or_endpoints_in_order():
    options = ModelOptions(
        model="openai:a", providers=["anthropic:b", {"model": "c", "base_url": "http://h", "api_key": "K"}]
    )
    assert [(one.dialect, one.name) for one in options.endpoints()] == [
        ("openai", "a"),
        ("anthropic", "b"),
        ("openai", "c"),
    ]


def test_secrets_are_those_of_all_endpoints():
    options = {"model": "openai:a", "providers": ["anthropic:b", {"model": "c", "base_url": "http://h"}]}
    assert secret_names(options) == ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
    assert secret_names({}) == []


def test_limits_are_named_by_provider_unless_told():
    assert Endpoint(model="openai:a").limit_name == "openai"
    assert Endpoint(model="openai:a", rate_limit="gateway").limit_name == "gateway"


def test_without_a_model_it_says_what_to_write():
    with pytest.raises(ValueError, match="'model' is missing"):
        ModelOptions().endpoints()


def test_a_judges_own_options_are_its_first_endpoint():
    written = {"model": "m", "provider": "google", "base_url": "http://h", "api_key": "K", "rate_limit": "gate"}
    (endpoint,) = ModelOptions.model_validate(written).endpoints()
    assert endpoint == Endpoint.model_validate(written)
