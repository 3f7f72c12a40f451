"""The python client under the contract: a function of a listed file, in a real child process."""

from __future__ import annotations

import pytest

from mst.clients.python import PythonCallable
from mst.config.files import IndexedFiles
from mst.model.case import Case, Variant
from mst.testing import client as suite
from mst.testing.client import ClientContract

SOURCE = """
import os, signal, subprocess, time

def answer(given):
    return given

async def answer_later(given, context):
    return {"final_text": given}

def hang(given):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "300"])
    time.sleep(300)

def token(given):
    return os.environ["TOKEN"]
"""


class TestPython(ClientContract):
    FUNCTION = "./tool.py:answer"

    @pytest.fixture(autouse=True)
    def _listed(self, tmp_path_factory, monkeypatch):
        folder = tmp_path_factory.mktemp("config")
        (folder / "tool.py").write_text(SOURCE)
        self.files = IndexedFiles()
        self.ref = self.files.add(folder, "tool.py")
        plain = suite.one_run

        async def with_files(*args, **given):
            return await plain(*args, **given, files=self.files)

        monkeypatch.setattr(suite, "one_run", with_files)

    def variant(self, **changes):
        options = {"function": self.FUNCTION, "files": [self.ref.to_dict()]}
        return Variant(name="v", client="python", client_options=options, **changes)

    def make(self, variant):
        return PythonCallable(variant)

    def hanging(self):
        options = {"function": "tool:hang", "files": [self.ref.to_dict()]}
        return Variant(name="v", client="python", client_options=options), Case(id="c", dataset="d")

    def with_secret(self):
        variant = self.variant(env={"TOKEN": {"secret": "TOKEN"}})
        return variant.model_copy(update={"client_options": {**variant.client_options, "function": "./tool.py:token"}})


class TestPythonAsync(TestPython):
    FUNCTION = "tool:answer_later"
