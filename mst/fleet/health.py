"""Is this machine's worker there? For an image's health check: `python -m mst.fleet.health` ends with 0 or 1.

Asks the broker for the live key of a worker whose name begins with this host's: a worker that hangs, or is cut off,
stops renewing it within half a minute.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing

from mst.errors import MstError
from mst.fleet.connect import RedisClient, broker_errors, connect
from mst.fleet.ledger_keys import DEFAULT_PREFIX, Keys

ANSWER_S = 5.0


def is_alive(client: RedisClient, name_start: str, *, prefix: str = DEFAULT_PREFIX) -> bool:
    """Whether a worker with such a name serves any queue.

    Raises:
        BrokerError: no answer.
    """
    pattern = Keys(prefix).workers("*")
    with broker_errors("looking for this worker"):
        now_ms = int(client.time()[0]) * 1000
        for key in client.scan_iter(match=pattern, count=100):
            names = client.zrangebyscore(key, now_ms, "+inf")
            if any(name.startswith(name_start) for name in names):
                return True
    return False


def main() -> int:
    """The health check; says why on stderr."""
    url = os.environ.get("MST_BROKER_URL")
    if not url:
        sys.stderr.write("MST_BROKER_URL is not set\n")
        return 1
    name = os.environ.get("MST_WORKER_NAME") or f"{socket.gethostname()}-"
    try:
        with closing(connect(url, answer_s=ANSWER_S)) as client:
            if is_alive(client, name):
                return 0
        sys.stderr.write(f"no live worker is called {name}...\n")
    except MstError as error:
        sys.stderr.write(f"{error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
