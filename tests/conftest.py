"""Fixtures for all tests: a Docker engine that starts once, and images that are built once on it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import settings

from mst.testing.engine import base_image, docker_engine

# A slow machine is no fault of an example. Where CI is set, hypothesis has a profile of its own with fixed seeds.
settings.register_profile("patient", deadline=None, print_blob=True)
if not os.environ.get("CI"):
    settings.load_profile("patient")


LONGEST_FIRST = ("fault", "integration", "e2e", "contract", "property")


def pytest_collection_modifyitems(items):
    """Files whose tests take long are begun first: one begun last would run on alone, with the other processes idle."""
    tests = Path(__file__).parent

    def place(item):
        folder = item.path.relative_to(tests).parts[0]
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=place)


@pytest.fixture(scope="session")
def docker_host():
    """`DOCKER_HOST` of an engine with the base image; also in this process's environment from then on."""
    pytest.importorskip("docker")
    with docker_engine() as host:
        yield host


@pytest.fixture(scope="session")
def built_images(docker_host):
    """Builds an image of a kind, once: `built_images("agents")` is a `BuiltImage`. Takes minutes."""
    from mst.runners.images import Docker, ImageOrder, build_image, recipes_folder

    made = {}

    def build(kind, plugins=()):
        if kind not in made:
            base = build("base").digest if kind == "agents" else base_image(docker_host)
            order = ImageOrder(kind=kind, base=base, recipes=recipes_folder(), tag=f"mst-test-{kind}", plugins=plugins)
            began = time.monotonic()
            made[kind] = build_image(order, Docker())
            took_s, size = time.monotonic() - began, made[kind].size_bytes / 1e6
            sys.stderr.write(f"image {kind}: {size:.0f} MB, {made[kind].parts} parts, built in {took_s:.0f} s\n")
        return made[kind]

    return build
