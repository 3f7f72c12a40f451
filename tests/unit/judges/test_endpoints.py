from __future__ import annotations

import pytest

from mst.judges.endpoints import ModelOptions, secret_names
from mst.providers.endpoints import Endpoint


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


def test_without_a_model_it_says_what_to_write():
    with pytest.raises(ValueError, match="'model' is missing"):
        ModelOptions().endpoints()


def test_a_judges_own_options_are_its_first_endpoint():
    written = {"model": "m", "provider": "google", "base_url": "http://h", "api_key": "K", "rate_limit": "gate"}
    (endpoint,) = ModelOptions.model_validate(written).endpoints()
    assert endpoint == Endpoint.model_validate(written)
