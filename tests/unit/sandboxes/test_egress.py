"""What the proxy of an allowlist is told, and what it tells. No engine."""

from __future__ import annotations

import re

import pytest

from mst.sandboxes.egress import NAMES_MAX, PORT, names_text, proxy_variables, read_log, settings_text


@pytest.mark.parametrize(
    ("allowed", "passes", "refused"),
    [
        (
            "example.org",
            ["example.org", "EXAMPLE.ORG"],
            ["xexample.org", "a.example.org", "exampleXorg", "example.org.x"],
        ),
        ("*.example.org", ["a.example.org", "a.b.example.org"], ["example.org", "aexample.org", "a.example.org.x"]),
        ("10.1.2.3", ["10.1.2.3"], ["10.1.2.30", "110.1.2.3"]),
    ],
)
def test_a_name_is_allowed_as_a_whole(allowed, passes, refused):
    [expression] = names_text([allowed]).splitlines()
    assert all(re.search(expression, name, re.IGNORECASE) for name in passes)
    assert not any(re.search(expression, name, re.IGNORECASE) for name in refused)


def test_everything_else_is_refused_by_default():
    lines = settings_text().splitlines()
    assert "FilterDefaultDeny Yes" in lines
    assert [line for line in lines if line.startswith("ConnectPort")] == ["ConnectPort 443"]


def test_programs_are_told_in_both_spellings_and_loopback_needs_no_proxy():
    told = proxy_variables()
    assert told["HTTPS_PROXY"] == told["https_proxy"] == f"http://127.0.0.1:{PORT}"
    assert "127.0.0.1" in told["NO_PROXY"].split(",")


def test_the_log_is_counted_by_name():
    log = (
        "CONNECT   Nov 29 20:55:41.334 [1]: Request (file descriptor 4): GET http://bad.test/ HTTP/1.1\n"
        'NOTICE    Nov 29 20:55:41.334 [1]: Proxying refused on filtered domain "bad.test"\n'
        "CONNECT   Nov 29 20:55:41.334 [1]: Request (file descriptor 5): CONNECT good.test:22 HTTP/1.1\n"
        "INFO      Nov 29 20:55:41.334 [1]: Refused CONNECT method on port 22\n"
    )
    assert read_log(log) == {"asked": 2, "refused": {"bad.test": 1, "port 22": 1}}


def test_what_a_program_can_choose_stays_bounded():
    log = "".join(f'x: Proxying refused on filtered domain "{"a" * 9999}{n}"\n' for n in range(3))
    log += "".join(f'x: Proxying refused on filtered domain "n{n}.test"\n' for n in range(500))
    refused = read_log(log)["refused"]
    assert len(refused) == NAMES_MAX
    assert max(map(len, refused)) <= 253
    assert read_log("") == {"asked": 0}
