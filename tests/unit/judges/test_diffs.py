from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mst.judges.diffs import FileChange, changes_of


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        ("", []),
        (
            "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n+c\n",
            [FileChange("x", added=2, removed=1)],
        ),
        (
            "diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
            [FileChange("new", 1)],
        ),
        ("diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\n", [FileChange("a b")]),
        (
            'diff --git "a/\\303\\244\\t" "b/\\303\\244\\t"\nBinary files x and y differ\n',
            [FileChange("ä\t", binary=True)],
        ),
        ("diff --git a/old b/new\nrename from old\nrename to new\n", [FileChange("new")]),
        (
            "--- a/x\n+++ b/x\n@@ -1 +0,0 @@\n--- b\n--- a/y\n+++ b/y\n@@ -0,0 +1 @@\n+++ c\n",
            [FileChange("x", 0, 1), FileChange("y", 1)],
        ),
        ("diff --git a/l b/l\n@@ -1 +0,0 @@\n-x\ndiff --git a/l b/l\n@@ -0,0 +1 @@\n+y\n", [FileChange("l", 1, 1)]),
    ],
)
def test_files_and_their_lines(diff, expected):
    assert changes_of(diff) == expected


@given(st.text(alphabet='@-+ ab\n/0,1"\\', max_size=200))
def test_no_text_breaks_it(text):
    assert all(change.added >= 0 and change.removed >= 0 for change in changes_of(text))
