"""Harbor's own work on a trivial trial: an environment that is a folder of this machine in place of a container.

Harbor has no environment without a container or a provider. This one gives its oracle agent and its verifier what they
ask of an environment, so what is measured is the harness. A container would come on top.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

PLACES = ("/logs", "/tests", "/solution", "/app")
TASK = {
    "task.toml": 'version = "1.0"\n[metadata]\n[verifier]\n[agent]\n[environment]\n',
    "instruction.md": "Copy.\n",
    "environment/Dockerfile": "FROM scratch\n",
    "solution/solve.sh": "#!/bin/sh\necho hello > $R/app/in.txt; cat $R/app/in.txt > $R/app/out.txt; echo done\n",
    "tests/test.sh": "#!/bin/sh\ntest -s $R/app/out.txt; echo $((1 - $?)) > $R/logs/verifier/reward.txt\n",
}


class Folder(BaseEnvironment):
    """A folder for each trial; the paths that Harbor uses lie below it."""

    @staticmethod
    def type() -> str:
        """Its name."""
        return "folder"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """Nothing beyond the least."""
        return EnvironmentCapabilities()

    def _validate_definition(self) -> None:
        """Nothing is built."""

    async def start(self, force_build: bool) -> None:
        """Make the folders."""
        self.root = Path(tempfile.mkdtemp(prefix="harbor-"))
        for name in (*PLACES, "/logs/agent", "/logs/verifier", "/logs/artifacts"):
            (self.root / name[1:]).mkdir()

    async def stop(self, delete: bool) -> None:
        """Remove them."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _here(self, path: str | Path) -> Path:
        return self.root / str(path)[1:] if str(path).startswith(PLACES) else Path(path)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """See Harbor."""
        shutil.copy(source_path, self._here(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """See Harbor."""
        shutil.copytree(source_dir, self._here(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """See Harbor."""
        shutil.copy(self._here(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """See Harbor."""
        shutil.copytree(self._here(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command: str, cwd: str | None = None, env: dict[str, str] | None = None,
                   timeout_sec: int | None = None, user: str | int | None = None) -> ExecResult:  # fmt: skip
        """See Harbor."""
        for name in PLACES:
            command = command.replace(f"{name}/", f"{self.root}{name}/").replace(f"{name} ", f"{self.root}{name} ")
        settings = {**os.environ, "R": str(self.root), **(env or {})}
        child = await asyncio.create_subprocess_exec(
            "sh", "-c", command, cwd=self._here(cwd or "/app"), env=settings, stdout=-1, stderr=-1
        )
        out, err = await child.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=child.returncode)


def main() -> int:
    """Make that many tasks in a folder and run them once each, with the oracle; the arguments: number, folder."""
    count, home = int(sys.argv[1]), Path(sys.argv[2])
    for number in range(count):
        for name, text in TASK.items():
            path = home / "tasks" / f"t{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    harbor = Path(sys.executable).with_name("harbor")
    where = {"PYTHONPATH": str(Path(__file__).parent), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    place = ["--env", "harbor_folder:Folder", "--jobs-dir", str(home / "jobs")]
    command = [str(harbor), "run", "-p", str(home / "tasks"), "-a", "oracle", *place, "-n", "4", "-y"]
    return subprocess.run(command, env={**os.environ, **where}, stdout=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
