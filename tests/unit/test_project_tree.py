"""What is in the repository holds on every machine: no paths of one, no download addresses, no keys, nothing large."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 1024 * 1024
SAMPLES = {
    "tests/unit/store/test_uri.py": ["/home/me/"],
    "tests/unit/config/test_recorded.py": ["ghp_v4lue", "sk-proj-v4lue", "-----BEGIN RSA PRIVATE KEY"],
}
"""Made-up values in tests that look like what is forbidden. May only shrink."""

MACHINE_PATH = re.compile(r"(?<![\w./~}-])/(?:home|root|Users|work|opt|mnt|srv|private/tmp|var/folders)/[\w.-]*/?")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted|npmjs\.(?:org|com)|index-url|find-links|\bproxy\.golang|registry\.[a-z]+\."
)
SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|AGE-SECRET-KEY-1[0-9A-Z]{20}|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_\w{16,}"
    r"|\bsk-[A-Za-z0-9-]{20,}|\bxox[abp]-\w{10,}"
)


def tracked():
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout, so nobody knows which files belong to it")
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def texts():
    for name in tracked():
        data = (ROOT / name).read_bytes()
        if b"\0" not in data and name != "tests/unit/test_project_tree.py":
            yield name, data.decode(errors="replace")


def findings(pattern, files):
    """`file: text` of every match that is not one of the samples."""
    return [
        f"{name}: {match.group()}"
        for name, text in files
        for match in pattern.finditer(text)
        if not any(match.group().startswith(sample.rstrip("/")) for sample in SAMPLES.get(name, []))
    ]


def test_no_path_of_a_machine():
    here = re.compile(re.escape(str(ROOT)) + r"\b")
    files = list(texts())
    assert findings(MACHINE_PATH, files) == []
    assert findings(here, files) == []


def test_no_download_addresses():
    allowed = ("Makefile", "pyproject.toml")  # options that keep addresses out of the locks
    assert [found for found in findings(REGISTRY, texts()) if not found.startswith(allowed)] == []


def test_no_keys():
    assert findings(SECRET, texts()) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (MACHINE_PATH, "see /home/ada/notes"),
        (MACHINE_PATH, "'/" + "root/x'"),
        (REGISTRY, "--index-url x"),
        (SECRET, "ghp_" + "0" * 20),
        (SECRET, "AGE-SECRET-KEY-1" + "Q" * 30),
    ],
)
def test_the_patterns_see_what_they_are_for(pattern, text):
    assert findings(pattern, [("x.md", text)])


def test_nothing_is_large():
    assert [name for name in tracked() if (ROOT / name).stat().st_size > LARGEST_BYTES] == []


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_locks_name_one_version_and_its_hashes(lock):
    text = lock.read_text()
    entries = re.split(r"\n(?=\S)", text.replace("\\\n", "").strip())
    entries = [entry for entry in entries if not entry.startswith("#")]
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==[\w.+]+( ; [^\n]*?)?\s+--hash=sha256:[0-9a-f]{64}", entry), entry[:80]
    assert "://" not in text


def test_the_runtime_lock_is_part_of_the_one_for_development():
    def pins(name):
        return set(re.findall(r"^[a-z0-9-]+==[^\s\\]+", (ROOT / "requirements" / name).read_text(), re.M))

    assert pins("runtime.txt") <= pins("dev.txt")


def test_every_dependency_is_in_its_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    ours = [*project["project"]["dependencies"], *groups["build"]]
    for extra, needed in project["project"]["optional-dependencies"].items():
        ours += needed if extra != "all" else []
    wanted = {
        "runtime.txt": ours,
        "dev.txt": [*ours, *groups["dev"], *groups["integration"]],
        "bench.txt": groups["bench"],
        "scan.txt": groups["scan"],
    }
    for lock, requirements in wanted.items():
        locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / lock).read_text(), re.MULTILINE))
        names = {re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-") for requirement in requirements}
        assert names <= locked, f"{lock}: make lock"
