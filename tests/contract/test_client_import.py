"""The import client under the contract, on JSON lines, and on samples that other tools made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mst.clients.imports.client import Import
from mst.config.files import IndexedFiles
from mst.model.case import Case, Variant
from mst.testing import client as suite
from mst.testing.client import ClientContract

SAMPLES = Path(__file__).parents[1] / "data/imports"


class TestImport(ClientContract):
    @pytest.fixture(autouse=True)
    def _listed(self, tmp_path_factory, monkeypatch):
        folder = tmp_path_factory.mktemp("config")
        lines = [
            {"caseId": f"case-{number}", "trial": trial, "finalText": f"hello {number}"}
            for number in range(8)
            for trial in range(8)
        ]
        (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.files = IndexedFiles()
        self.ref = self.files.add(folder, "lines.jsonl")
        plain = suite.one_run

        async def with_files(*args, **given):
            return await plain(*args, **given, files=self.files)

        monkeypatch.setattr(suite, "one_run", with_files)

    def variant(self, **changes):
        return Variant(name="v", client="import", client_options={"files": [self.ref.to_dict()]}, **changes)

    def make(self, variant):
        return Import(variant)


class TestImportInspect(TestImport):
    def variant(self, **changes):
        ref = self.files.add(SAMPLES, "menu.eval")
        return Variant(name="v", client="import", client_options={"files": [ref.to_dict()]}, **changes)

    def case(self, number=0):
        return Case(id="soup" if number % 2 else "2", dataset="d", input="")

    def expected(self, number):
        return None

    def test_trials_at_once_do_not_mix(self, tmp_path):
        pytest.skip("the sample has two epochs, and this test asks for four")
