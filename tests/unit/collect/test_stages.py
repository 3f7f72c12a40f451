"""The innermost stage that failed names the kind."""

from __future__ import annotations

import asyncio

import pytest

from mst.collect.stages import StageFailed, Stages
from mst.errors import ClientError, DigestMismatch


def test_an_error_that_names_its_kind_keeps_it():
    stages = Stages()
    with pytest.raises(StageFailed), stages.stage("client", "harness"):
        raise ClientError("gone", "environment")
    assert (stages.failure.stage, stages.failure.kind, stages.failure.message) == ("client", "environment", "gone")
    assert stages.failure.trace is None


def test_any_other_error_of_ours_gets_the_stages_kind():
    stages = Stages()
    with pytest.raises(StageFailed), stages.stage("export", "environment"):
        raise DigestMismatch("differs")
    assert stages.failure.kind == "environment"


def test_what_nobody_expected_is_kept_with_its_traceback():
    stages = Stages()
    with pytest.raises(StageFailed), stages.stage("client", "harness"):
        {}["missing"]
    assert stages.failure.message == "KeyError: 'missing'"
    assert "test_stages.py" in stages.failure.trace


def test_the_first_failure_stays():
    stages = Stages()
    for number in (1, 2):
        with pytest.raises(StageFailed), stages.stage(f"s{number}", "harness"):
            raise ClientError(f"e{number}")
    assert stages.failure.message == "e1"
    assert list(stages.times_ms) == ["s1", "s2"]


def test_cancellation_passes_untagged():
    stages = Stages()
    with pytest.raises(asyncio.CancelledError), stages.stage("client", "harness"):
        raise asyncio.CancelledError
    assert stages.failure is None
    assert "client" in stages.times_ms
