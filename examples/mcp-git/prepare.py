"""Make a virtual environment for each version of the server, and put both servers into `.venvs/bin`.

Everything that decides an answer is pinned. Both servers use the same GitPython, so that the server (and the MCP
library that it needs) is the only difference. An environment that is there already is kept.
"""

import subprocess
import sys
import venv
from pathlib import Path

VENVS = Path(__file__).resolve().parent / ".venvs"
VERSIONS = {
    "2025.9.25": ["mcp-server-git==2025.9.25", "mcp==1.30.0", "GitPython==3.2.1"],
    "2026.10.19": ["mcp-server-git==2026.10.19", "mcp==2.3.0", "GitPython==3.2.1"],
}


def prepare(version: str, packages: list[str]) -> Path:
    """Install one version; returns the server's program. Safe to repeat, also after an interrupted install."""
    home = VENVS / version
    program = VENVS / "bin" / f"mcp-server-git-{version}"
    if program.exists():
        return program
    venv.create(home, with_pip=True, clear=True)
    subprocess.run([home / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], check=True)
    program.parent.mkdir(exist_ok=True)
    program.unlink(missing_ok=True)
    program.symlink_to(home / "bin" / "mcp-server-git")
    return program


def main() -> int:
    for version, packages in VERSIONS.items():
        print(prepare(version, packages))
    print(f'\nNow: export PATH="{VENVS / "bin"}:$PATH"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
