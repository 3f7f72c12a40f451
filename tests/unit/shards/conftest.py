"""Stored runs to bundle and to grade."""

import pytest

from mst.testing.stored_run import collect_run, write_echo_eval


@pytest.fixture
def config(tmp_path):
    return write_echo_eval(tmp_path / "eval")


@pytest.fixture
def run(config, tmp_path):
    """A collected run of four cases and two variants."""
    return collect_run(config, tmp_path / "results")
