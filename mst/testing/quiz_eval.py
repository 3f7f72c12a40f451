"""A small and quick eval whose one judge does what a test asks for by files: hold, crash, leak a secret.

Every case is answered by `echo`. The judge writes its key to files before and after it answers, so that a test
can tell what was asked, what was answered, and what was asked twice.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

SECRET = "QUIZ_KEY"
JUDGE = r"""
import hashlib, json, os, signal, sys, time
marks, secret = sys.argv[1], os.environ.get("QUIZ_KEY", "")

def has(name):
    return os.path.exists(os.path.join(marks, name))

def note(name, text):
    log = os.open(os.path.join(marks, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(log, (text + "\n").encode())
    os.close(log)

if sys.argv[2:] == ["preflight"]:
    note("preflights", str(os.getppid()))
    if has("reject"):
        sys.exit("the key " + secret + " was rejected")
    sys.exit(0)

def bundle_since(now):
    # since when the attempt that asks has its bundle: what the store had before, it has taken over. Its temporary
    # files, among them this judge's, lie beside the bundle. Who has none of that has seen all that there is.
    place = os.environ["TMPDIR"]
    while place != os.path.dirname(place):
        place = os.path.dirname(place)
        try:
            return os.stat(os.path.join(place, "bundle")).st_mtime
        except OSError:
            pass
    return now

question = json.load(sys.stdin)
case, key = question["case"]["id"], question["trial"]["response"]
note("calls", key)
now = time.time()
note("times", "%.6f %.6f %s" % (now, bundle_since(now), key))
note("pids", str(os.getpid()))
if secret:
    note("digests", hashlib.sha256(secret.encode()).hexdigest())
if has("crash-" + case):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
for _ in range(6000):
    if not (has("hold") or has("hold-" + case)) or has("go-" + key):
        break
    note("held", key) if _ == 0 else None
    time.sleep(0.02)
if has("slow"):
    time.sleep(0.3)
if has("leak-" + case):
    print("the key is " + secret, file=sys.stderr)
    sys.exit(3)
note("answered", key)
print(json.dumps({"score": 1.0 if key.startswith("B") else 0.4, "reasoning": "asked with " + secret}))
"""


class Quiz:
    """The eval below a folder, and what its judge was asked.

    The first six cases split evenly: of two shards one has c1, c4 and c5; of three c1 and c6, c3 and c5, c2 and c4.

    Args:
        home: for the eval and, when it is collected, its results.
        cases: how many, `c1` and on, each for two variants.
        secret: whether the judge declares a secret and a preflight.
    """

    def __init__(self, home: Path, *, cases: int = 6, secret: bool = False, concurrency: int = 1) -> None:
        self.home = home
        self.marks = home / "marks"
        self.marks.mkdir(parents=True, exist_ok=True)
        self.config = home / "eval.yaml"
        self.ids = [f"c{number}" for number in range(1, cases + 1)]
        (home / "judge.py").write_text(JUDGE)
        (home / "cases.yaml").write_text(yaml.safe_dump([{"id": name, "input": name} for name in self.ids]))
        self.config.write_text(yaml.safe_dump(self._config(secret, concurrency), sort_keys=False))

    def _config(self, secret: bool, concurrency: int) -> dict[str, Any]:
        argv = ["{{python}}", "-I", "-S", "judge.py", str(self.marks)]
        judge: dict[str, Any] = {"name": "quiz", "command": {"argv": argv, "files": ["judge.py"]}, "threshold": 0.5}
        if secret:
            judge["command"] |= {"secrets": [SECRET], "preflight": [*argv, "preflight"]}
        return {
            "name": "quiz",
            "datasets": [{"file": "cases.yaml"}],
            "client": "echo",
            "concurrency": concurrency,
            "baseline": "a",
            "variants": [
                {"name": "a", "input_template": "A {{input}}"},
                {"name": "b", "input_template": "B {{input}}"},
            ],
            "judges": [judge],
            "pairwise_judges": [{"name": "smaller", "smaller_diff": {}}],
        }

    @property
    def keys(self) -> set[str]:
        """What the judge is asked in all: an answer each."""
        return {f"{variant} {case}" for case in self.ids for variant in ("A", "B")}

    def lines(self, name: str) -> list[str]:
        """What the judge noted so far under a name: `calls`, `answered`, `held`, `pids`, `digests`, `preflights`."""
        path = self.marks / name
        return path.read_text().splitlines() if path.exists() else []

    def calls(self) -> Counter[str]:
        """How often each answer was asked about."""
        return Counter(self.lines("calls"))

    def ask(self, *names: str) -> None:
        """Ask for something from now on: `hold`, `hold-<case>`, `crash-<case>`, `leak-<case>`, `reject`, `slow`.

        `go-<answer>` lets one go that is held, and no other.
        """
        for name in names:
            (self.marks / name).touch()

    def let_go(self, *names: str) -> None:
        """Stop asking for it."""
        for name in names:
            (self.marks / name).unlink(missing_ok=True)

    def forget(self) -> None:
        """Begin anew: nothing noted, nothing asked for."""
        for path in self.marks.iterdir():
            path.unlink()


def digest(value: str) -> str:
    """What the judge notes of a secret's value."""
    return hashlib.sha256(value.encode()).hexdigest()
