"""Fixtures for all tests: a Docker engine that starts once."""

from __future__ import annotations

import pytest

from mst.testing.engine import docker_engine


@pytest.fixture(scope="session")
def docker_host():
    """`DOCKER_HOST` of an engine with the base image; also in this process's environment from then on."""
    pytest.importorskip("docker")
    with docker_engine() as host:
        yield host
