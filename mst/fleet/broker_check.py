"""Whether a Redis is fit to carry a fleet: asked with `INFO` alone, since managed ones forbid `CONFIG`."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from mst.errors import BrokerError
from mst.fleet.connect import RedisClient, broker_errors, check_url, connect, is_loopback, without_password

MIN_VERSION = (6, 2)
DEFAULT_USER = "MST_BROKER_DEFAULT_USER"
START_S = 10.0
"""How long workers and scalers wait for a broker on their own machine, which may be started beside them."""
AGAIN_S = 0.2
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


def check_broker(url: str, environment: Mapping[str, str] | None = None, *, patience_s: float = 0.0) -> BrokerFacts:
    """Look at a broker before anything is sent to it.

    Args:
        url: with user and password.
        environment: where `MST_BROKER_DEFAULT_USER=accept` may stand, for a managed broker that has no other user.
        patience_s: for one on this machine that is being started: how long it may take to answer.

    Raises:
        UsageError: the URL is none of ours.
        BrokerError: unreachable, wrong password, or unfit; one line that names the setting.
    """
    place = without_password(check_url(url))
    warning = _check_transport(url, place, os.environ if environment is None else environment)
    facts = judge(_ask(url, place, patience_s if is_loopback(url) else 0.0), place)
    return replace(facts, warnings=(warning, *facts.warnings)) if warning else facts


def _ask(url: str, place: str, patience_s: float) -> dict[str, Any]:
    client = connect(url, answer_s=10.0)
    deadline = time.monotonic() + patience_s
    pause = threading.Event()
    try:
        while time.monotonic() < deadline:
            with suppress(BrokerError):
                return _info(client, place)
            pause.wait(AGAIN_S)
        return _info(client, place)
    finally:
        client.close()


def _info(client: RedisClient, place: str) -> dict[str, Any]:
    info: dict[str, Any] = {}
    with broker_errors(f"broker {place}"):
        for section in SECTIONS:
            info.update(client.info(section))
    return info


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


def _check_transport(url: str, place: str, environment: Mapping[str, str]) -> str | None:
    if is_loopback(url):
        return None
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        raise BrokerError(f"broker {place}: is on another machine and without TLS; use rediss://")
    if parts.username and parts.username != "default":
        return None
    if environment.get(DEFAULT_USER) != "accept":
        raise BrokerError(
            f"broker {place}: name an ACL user of the fleet's own (rediss://USER:PASSWORD@host); where a managed "
            f"broker has the default user only, say {DEFAULT_USER}=accept"
        )
    if not parts.password:
        raise BrokerError(f"broker {place}: the default user has no password; anybody could give orders to the fleet")
    return f"broker {place}: the default user is taken: whoever knows its password may do everything there"
