"""What a case changes in a variant."""

from __future__ import annotations

from mst.collect.effective import client_key, effective_variant, merged
from mst.model.case import Case, Variant

VARIANT = Variant(name="v", client="command", model="m", client_options={"argv": ["x"], "env": {"A": "1", "B": "2"}})


def case(**fields):
    return Case(id="c", dataset="d", **fields)


def test_a_case_without_overrides_changes_nothing():
    assert effective_variant(case(), VARIANT) is VARIANT
    assert client_key(case(), VARIANT) == "v"


def test_options_merge_key_by_key_and_lists_replace():
    found = effective_variant(case(client_options={"argv": ["y"], "env": {"B": "3"}}), VARIANT)
    assert found.client_options == {"argv": ["y"], "env": {"A": "1", "B": "3"}}
    assert VARIANT.client_options["env"] == {"A": "1", "B": "2"}


def test_another_client_starts_from_its_own_options():
    found = effective_variant(case(client="echo", model="n"), VARIANT)
    assert (found.client, found.model, found.client_options) == ("echo", "n", {})


def test_cases_with_equal_overrides_share_a_client():
    one, two, other = case(model="n"), case(model="n", input="x"), case(model="o")
    assert client_key(one, VARIANT) == client_key(two, VARIANT)
    assert len({client_key(each, VARIANT) for each in (case(), one, other)}) == 3


def test_oracle_and_noop_are_not_overridden():
    oracle = Variant(name="oracle", client="oracle")
    overriding = case(client="command", client_options={"argv": ["x"]})
    assert effective_variant(overriding, oracle) is oracle
    assert client_key(overriding, oracle) == "oracle"


def test_a_mapping_over_a_scalar_replaces_it():
    assert merged({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
