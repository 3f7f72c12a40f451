import pytest

from mst.errors import BrokerError, UsageError
from mst.fleet.broker_check import check_broker, judge
from mst.fleet.connect import check_url, connect, is_loopback, socket_url, without_password

GOOD = {"redis_version": "7.2.4", "cluster_enabled": 0, "maxmemory_policy": "noeviction", "aof_enabled": 1}


@pytest.mark.parametrize("url", ["redis://localhost:6379/0", "rediss://u:p@host/0", "redis+socket://:p@/run/s"])
def test_known_kinds_of_url_pass(url):
    assert check_url(url) == url


@pytest.mark.parametrize("url", ["amqp://u:hush@host", "redis+socket://:hush@", "redis://", "hush", "sqs://"])
def test_other_urls_are_refused_without_showing_a_password(url):
    with pytest.raises(UsageError, match="MST_BROKER_URL") as caught:
        check_url(url)
    assert "hush" not in str(caught.value)


def test_what_is_shown_holds_no_credentials():
    assert without_password("rediss://user:hush@host:6380/1?x=hush") == "rediss://host:6380/1"
    assert without_password("redis+socket://:hush@/run/mst/s") == "redis+socket:///run/mst/s"


def test_a_socket_url_keeps_any_password():
    client = connect(socket_url("/run/s", "a/b:c@d%"))
    assert client.connection_pool.connection_kwargs["password"] == "a/b:c@d%"
    assert client.connection_pool.connection_kwargs["path"] == "/run/s"


def test_loopback_is_known():
    assert is_loopback("redis://127.0.0.1:1/0")
    assert is_loopback("redis+socket://:p@/s")
    assert not is_loopback("redis://broker.example/0")


def test_a_fit_broker_passes():
    assert judge(GOOD, "here").warnings == ()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"redis_version": "6.0.16"}, "6.2 or newer"),
        ({"cluster_enabled": 1}, "Cluster"),
        ({"maxmemory_policy": "allkeys-lru"}, "maxmemory-policy is allkeys-lru"),
        ({"redis_version": "?"}, "too old"),
    ],
)
def test_an_unfit_broker_is_refused_in_one_line(change, fault):
    with pytest.raises(BrokerError, match=fault) as caught:
        judge({**GOOD, **change}, "here")
    assert "\n" not in str(caught.value)


def test_missing_persistence_is_a_warning():
    (warning,) = judge({**GOOD, "aof_enabled": 0}, "here").warnings
    assert "append-only" in warning


def test_another_machine_needs_tls_and_a_user():
    with pytest.raises(BrokerError, match="rediss://"):
        check_broker("redis://u:p@broker.example:6379/0")
    with pytest.raises(BrokerError, match="ACL user"):
        check_broker("rediss://:p@broker.example:6379/0")


def test_an_unreachable_broker_is_one_line():
    with pytest.raises(BrokerError, match=r"redis\+socket:///nowhere/s: the broker does not answer"):
        check_broker("redis+socket://:hush@/nowhere/s")
