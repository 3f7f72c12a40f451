"""A program's last words: whole lines from the end, and of a long line its beginning."""

from __future__ import annotations

import pytest

from mst.process.lastwords import last_words

TRACE = 'Traceback (most recent call last):\n  File "server.py", line 2, in <module>\nModuleNotFoundError: no x\n'


@pytest.mark.parametrize(
    ("said", "limit", "expected"),
    [
        ("", 20, ""),
        (" \n \n", 20, ""),
        ("bad\n", 20, "bad"),
        (b"caf\xc3\xa9 \xff\n", 20, "caf\u00e9 \ufffd"),
        (TRACE, 300, TRACE.strip()),
        (TRACE, 60, "ModuleNotFoundError: no x"),
        (TRACE, 65, '  File "server.py", line 2, in <module>\nModuleNotFoundError: no x'),
        ("first\n\n\nlast\n", 10, "first\nlast"),
        ("x\nModuleNotFoundError: no module", 20, "ModuleNotFoundErr..."),
    ],
)
def test_whole_lines_from_the_end(said, limit, expected):
    assert last_words(said, limit=limit) == expected
    assert len(last_words(said, limit=limit)) <= limit
