from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mst.config.resolve import ResolvedEval, load_eval
from mst.errors import ConfigError
from mst.model.run import Selection

MINIMAL = """
name: small
datasets: [cases.yaml]
client: echo
"""
CASES = """
- {id: one, input: "1"}
- {id: two, input: "2", tags: [even]}
"""


class Eval:
    """An eval in a folder of its own, written file by file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[ResolvedEval] = []

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def load(
        self, config: str = MINIMAL, *, cases: str | None = CASES, selection: Selection | None = None
    ) -> ResolvedEval:
        if cases is not None:
            self.write("cases.yaml", cases)
        resolved = load_eval(self.write("eval.yaml", config), selection=selection)
        self.opened.append(resolved)
        return resolved

    def faults(
        self, config: str = MINIMAL, *, cases: str | None = CASES, selection: Selection | None = None
    ) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.load(config, cases=cases, selection=selection)
        return [fault.replace(f"{self.folder}/", "") for fault in caught.value.faults]


@pytest.fixture
def eval_(tmp_path: Path):
    made = Eval(tmp_path)
    yield made
    for resolved in made.opened:
        resolved.close()


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Installs a real plugin distribution: a module with entry points on the import path."""

    installed: list[str] = []

    def install(module: str, code: str, entry_points: str, *, version: str = "1.2.3") -> Path:
        installed.append(module)
        site = tmp_path / f"site-{module}"
        info = site / f"{module}-{version}.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(textwrap.dedent(code))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))
        monkeypatch.syspath_prepend(str(site))
        return site

    yield install
    for module in installed:
        sys.modules.pop(module, None)
