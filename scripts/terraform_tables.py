"""Write the tables of inputs and outputs into the READMEs of infra/terraform: `python scripts/terraform_tables.py`.

With `--check` nothing is written, and the exit code is 1 when a README is out of date. Needs python-hcl2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hcl2

ROOT = Path(__file__).parent.parent / "infra" / "terraform"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def plain(value: Any) -> str:
    """A string as it was meant: the parser keeps its quotes."""
    text = str(value)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def blocks(folder: Path, kind: str) -> dict[str, dict[str, Any]]:
    """All blocks of a kind in a folder's files, by name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.tf")):
        with path.open(encoding="utf-8") as source:
            for block in hcl2.load(source).get(kind, []):
                found |= {plain(name): body for name, body in block.items() if not name.startswith("__")}
    return found


def tables(folder: Path) -> str:
    """The tables of one module or example."""
    lines = ["| input | needed | what |", "| --- | --- | --- |"]
    for name, body in sorted(blocks(folder, "variable").items()):
        lines.append(f"| `{name}` | {'no' if 'default' in body else 'yes'} | {cell(body)} |")
    lines += ["", "| output | what |", "| --- | --- |"]
    lines += [f"| `{name}` | {cell(body)} |" for name, body in sorted(blocks(folder, "output").items())]
    return "\n".join(lines)


def cell(body: dict[str, Any]) -> str:
    """A block's description in a table."""
    return plain(body["description"]).replace('\\"', '"').replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write or check all READMEs."""
    stale = []
    for versions in sorted(ROOT.glob("*/**/versions.tf")):
        readme = versions.with_name("README.md")
        text = readme.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        tail = rest.partition(END)[2]
        wanted = f"{head}{BEGIN}\n\n{tables(versions.parent)}\n\n{END}{tail}"
        if wanted != text:
            stale.append(str(readme.relative_to(ROOT)))
            if "--check" not in arguments:
                readme.write_text(wanted, encoding="utf-8")
    if stale:
        sys.stdout.write("".join(f"{path}\n" for path in stale))
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
