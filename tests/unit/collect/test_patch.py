"""The diff of a workspace is a patch that git itself can apply."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from mst.collect import patch as patch_module
from mst.collect.baseline import baseline_of_folder
from mst.collect.export import export
from mst.collect.patch import make_patch, quoted
from mst.config.files import IndexedFiles
from mst.model.case import TrialLimits
from mst.process.redact import Redactor


def make(folder, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in contents.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, tuple):
            target.symlink_to(data[0])
            continue
        target.write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def change(tmp_path, before, after, executable=()):
    old = make(tmp_path / "old", before)
    baseline = baseline_of_folder(old, [], IndexedFiles(), tmp_path / "kept")
    new = make(tmp_path / "new", after)
    for path in executable:
        (new / path).chmod(0o755)
    left = export(new, tmp_path / "out", limits=TrialLimits(), baseline=baseline, redactor=Redactor([]), timeout_s=30)
    return make_patch(baseline, left)


CHANGES = {
    "changed": ({"a.py": "1\n2\n3\n"}, {"a.py": "1\nx\n3\n"}),
    "made": ({}, {"dir/new.txt": "hello\nworld"}),
    "deleted": ({"a": "x\n", "b/c": "y"}, {"a": "x\n"}),
    "made empty": ({"a": "x"}, {"a": "x", "empty": ""}),
    "deleted empty": ({"empty": "", "a": "x"}, {"a": "x"}),
    "emptied": ({"a": "x\ny\n"}, {"a": ""}),
    "no line end": ({"a": "x\ny"}, {"a": "x\ny\n"}),
    "spaces and umlauts": ({"a b.txt": "1\n", 'ü\t"q".txt': "1\n"}, {"a b.txt": "2\n", 'ü\t"q".txt': "2\n"}),
    "carriage returns": ({"a": "1\r\n2\r\n"}, {"a": "1\r\n3\r\n"}),
    "link made": ({"a": "1\n"}, {"a": "1\n", "l": ("a",)}),
    "link moved": ({"a": "1\n", "l": ("a",)}, {"a": "1\n", "l": ("b",)}),
    "file became link": ({"a": "1\n", "l": "text\n"}, {"a": "1\n", "l": ("a",)}),
    "file became folder": ({"a": "1\n"}, {"a/b": "1\n"}),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES.keys())
def test_git_applies_it_to_the_old_and_gets_the_new(tmp_path, before, after):
    if shutil.which("git") is None:
        pytest.skip("git is not installed here")
    text = change(tmp_path, before, after)
    assert text
    applied = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        input=text.encode(),
        cwd=tmp_path / "old",
        capture_output=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stderr.decode() + text
    assert contents(tmp_path / "old") == contents(tmp_path / "new")


def contents(folder):
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def test_an_executable_bit_is_a_change(tmp_path):
    assert change(tmp_path, {"a": "1\n"}, {"a": "1\n"}, executable=["a"]) == (
        "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"
    )


def test_nothing_changed_gives_an_empty_patch(tmp_path):
    same = {"a": "1\n", "b/c": b"\0\1", "l": ("a",)}
    assert change(tmp_path, same, same) == ""


@pytest.mark.parametrize("data", [b"\0binary", b"\xff\xfe"])
def test_binary_files_are_only_named(tmp_path, data):
    text = change(tmp_path, {"a": "text"}, {"a": data, "b": data})
    assert "Binary files a/a and b/a differ\n" in text
    assert "Binary files /dev/null and b/b differ\n" in text


def test_large_files_are_only_named(tmp_path, monkeypatch):
    monkeypatch.setattr(patch_module, "MAX_FILE_BYTES", 10)
    assert "Binary files a/a and b/a differ" in change(tmp_path, {"a": "x"}, {"a": "x" * 11})


def test_a_patch_that_has_grown_large_only_names_what_follows(tmp_path, monkeypatch):
    monkeypatch.setattr(patch_module, "MAX_PATCH_BYTES", 10)
    text = change(tmp_path, {}, {"a": "first\n", "b": "second\n"})
    assert "+first" in text
    assert "Binary files /dev/null and b/b differ" in text


def test_inner_files_of_repositories_are_no_part_of_it_and_ignore_files_hide_nothing(tmp_path):
    before = {
        ".git/config": "x",
        "sub/.git/HEAD": "x",
        "sub/a": "1\n",
        ".gitignore": "*\n",
        ".gitattributes": "* -diff\n",
    }
    after = {**before, ".git/config": "y", "sub/.git/HEAD": "y", "sub/a": "2\n", "new": "n\n"}
    text = change(tmp_path, before, after)
    assert "+2" in text
    assert "+n" in text
    assert ".git/" not in text


def test_names_are_quoted_as_git_does():
    assert quoted("a/plain name.txt") == "a/plain name.txt"
    assert quoted('a/"x"\n\\ü') == r'"a/\"x\"\n\\\303\274"'
