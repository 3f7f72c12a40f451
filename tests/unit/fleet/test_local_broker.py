"""A broker that `mst fleet broker` starts: what its configuration says, and where none is started."""

from pathlib import Path

import pytest

from mst.errors import UsageError
from mst.fleet.local_broker import configuration

FOLDER = Path("/data/broker")


def test_a_port_on_loopback_with_a_password():
    lines = configuration("redis://:p%22w@127.0.0.1:6390/0", FOLDER).splitlines()
    assert {"bind 127.0.0.1", "port 6390", 'requirepass "p\\"w"', 'dir "/data/broker"'} <= set(lines)
    assert {"appendonly yes", "maxmemory-policy noeviction"} <= set(lines)


def test_a_socket():
    lines = configuration("redis+socket://:pw@/run/mst/s", FOLDER).splitlines()
    assert {"port 0", 'unixsocket "/run/mst/s"', "unixsocketperm 700"} <= set(lines)


def test_without_a_password_none_is_asked_for():
    assert "requirepass" not in configuration("redis://localhost/0", FOLDER)


@pytest.mark.parametrize("url", ["redis://:p@10.0.0.7:6379/0", "rediss://u:p@localhost/0"])
def test_elsewhere_or_with_tls_none_is_started(url):
    with pytest.raises(UsageError, match="honcho start worker flower") as caught:
        configuration(url, FOLDER)
    assert ":p@" not in str(caught.value)


def test_a_user_is_refused():
    with pytest.raises(UsageError, match="no user 'mst'"):
        configuration("redis://mst:p@127.0.0.1/0", FOLDER)


def test_no_line_is_smuggled_in():
    with pytest.raises(UsageError, match="control characters"):
        configuration("redis://:p%0Aslaveof%20x@127.0.0.1/0", FOLDER)
