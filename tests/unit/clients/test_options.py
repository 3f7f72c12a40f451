"""Option schemas: strict keys, environments with secrets."""

from __future__ import annotations

import pytest

from mst.clients.command import CommandOptions
from mst.clients.options import (
    SecretRef,
    fill_environment,
    listed_files,
    parse_options,
    secret_names,
    variant_environment,
)
from mst.errors import ClientError, ConfigError
from mst.model.base import FileRef
from mst.model.case import Variant


def variant(**options):
    return Variant(name="fast", client="command", client_options=options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"argv": ["x"], "inptu": "none"}, r"variant 'fast': client_options\.inptu: unknown key"),
        ({}, "either argv .* or steps"),
        ({"argv": ["x"], "steps": [["y"]]}, "either argv .* or steps"),
        ({"argv": []}, "argv"),
        ({"steps": [["x"], []]}, "empty list"),
        ({"argv": ["x"], "env": {"A": True}}, r"env\.A"),
        ({"argv": ["x"], "ok_exit_codes": "some"}, "ok_exit_codes"),
        ({"argv": ["x"], "transcript": {"file": "t", "parser": "xml"}}, "transcript"),
    ],
)
def test_a_fault_is_said_with_variant_and_key(options, said):
    with pytest.raises(ConfigError, match=said):
        parse_options(CommandOptions, variant(**options))


def test_both_spellings_of_keys_are_read():
    assert parse_options(CommandOptions, variant(argv=["x"], okExitCodes="any")).ok_exit_codes == "any"


def test_secrets_are_named_and_filled_in():
    environment = {"A": SecretRef(secret="TOKEN"), "B": "plain", "C": 3}
    assert secret_names(environment) == ["TOKEN"]
    assert fill_environment(environment, {"TOKEN": "t"}) == {"A": "t", "B": "plain", "C": "3"}


def test_a_secret_without_value_is_the_environments_fault_and_named():
    with pytest.raises(ClientError, match="TOKEN") as caught:
        fill_environment({"A": SecretRef(secret="TOKEN")}, {})
    assert caught.value.kind == "environment"


def test_a_variants_environment_is_checked():
    with pytest.raises(ConfigError, match=r"variant 'v': env\.A"):
        variant_environment(Variant(name="v", env={"A": ["list"]}))


def test_files_must_have_been_resolved():
    ref = FileRef(path="a.py", sha256="0" * 64, size=1)
    assert listed_files([ref]) == [ref]
    with pytest.raises(ClientError, match="not resolved"):
        listed_files([ref, "b.py"])
