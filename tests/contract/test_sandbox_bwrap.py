"""Bubblewrap under the contract with its escape attempts; once more where no control groups can be made."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from mst.sandboxes import bwrap
from mst.sandboxes.bwrap import Bwrap
from mst.sandboxes.cgroup import find_place
from mst.sandboxes.options import SandboxOptions
from mst.testing.sandbox import IsolatingSandboxContract

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap exists on Linux only")


@pytest.fixture(autouse=True)
def _installed():
    if shutil.which("bwrap") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("bubblewrap is not installed")


class TestBwrap(IsolatingSandboxContract):
    kind = "bwrap"
    counts_refused_processes = find_place() is not None

    def make(self, options):
        return Bwrap(options)


@pytest.mark.skipif(os.geteuid() == 0, reason="root is bound by control groups only: see the test below")
class TestBwrapWithoutControlGroups(TestBwrap):
    counts_refused_processes = False

    @pytest.fixture(autouse=True)
    def _no_groups(self, monkeypatch):
        monkeypatch.setattr(bwrap, "find_place", lambda: None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is bound by control groups alone")
def test_root_without_control_groups_is_refused(monkeypatch):
    monkeypatch.setattr(bwrap, "find_place", lambda: None)
    assert "no limit of processes" in Bwrap(SandboxOptions(kind="bwrap")).faults()[0]
