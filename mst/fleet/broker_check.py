"""Whether a Redis is fit to carry a fleet: asked with `INFO` alone, since managed ones forbid `CONFIG`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mst.errors import BrokerError
from mst.fleet.connect import broker_errors, check_url, connect, is_loopback, without_password

MIN_VERSION = (6, 2)
SECTIONS = ("server", "memory", "cluster", "persistence")


@dataclass(frozen=True)
class BrokerFacts:
    """What was found.

    Attributes:
        version: of the Redis protocol that it keeps, e.g. `7.2.4`.
        warnings: one line each; the fleet works, and may lose more than it should.
    """

    place: str
    version: str
    warnings: tuple[str, ...] = ()


def check_broker(url: str, *, allow_plain: bool = False) -> BrokerFacts:
    """Look at a broker before anything is sent to it.

    Args:
        url: with user and password.
        allow_plain: accept a broker on another machine without TLS or without an ACL user of its own.

    Raises:
        UsageError: the URL is none of ours.
        BrokerError: unreachable, wrong password, or unfit; one line that names the setting.
    """
    place = without_password(check_url(url))
    if not allow_plain:
        _check_transport(url, place)
    client = connect(url, answer_s=10.0)
    try:
        info: dict[str, Any] = {}
        with broker_errors(f"broker {place}"):
            for section in SECTIONS:
                info.update(client.info(section))
    finally:
        client.close()
    return judge(info, place)


def judge(info: Mapping[str, Any], place: str) -> BrokerFacts:
    """Decide on the merged answers of `INFO`. Pure.

    Raises:
        BrokerError: version, eviction policy or mode is unfit.
    """
    version = str(info.get("redis_version", "0"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < MIN_VERSION:
        raise BrokerError(f"broker {place}: Redis {version} is too old; 6.2 or newer is needed")
    if int(info.get("cluster_enabled", 0)):
        raise BrokerError(f"broker {place}: is a Redis Cluster, which Celery can't use; give it a single instance")
    policy = info.get("maxmemory_policy", "unknown")
    if policy != "noeviction":
        raise BrokerError(
            f"broker {place}: maxmemory-policy is {policy}: full, it would drop queued shards silently; "
            "set maxmemory-policy noeviction"
        )
    return BrokerFacts(place, version, _warnings(info, place))


def _warnings(info: Mapping[str, Any], place: str) -> tuple[str, ...]:
    warnings = []
    if not int(info.get("aof_enabled", 0)):
        warnings.append(f"broker {place}: no append-only file; a restart loses queued shards until attach sends them")
    if info.get("aof_last_write_status", "ok") != "ok":
        warnings.append(f"broker {place}: its last write to the append-only file failed")
    return tuple(warnings)


def _check_transport(url: str, place: str) -> None:
    if is_loopback(url):
        return
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        raise BrokerError(f"broker {place}: is on another machine and without TLS; use rediss://")
    if not parts.username or parts.username == "default":
        raise BrokerError(f"broker {place}: name an ACL user of the fleet's own (rediss://USER:PASSWORD@host)")
