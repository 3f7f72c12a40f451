"""The Lua scripts of `lua/`, put together and run. A move is: tables from Python, the prelude, its own text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from mst.fleet.connect import RedisClient, broker_errors
from mst.fleet.ledger_states import BACKS_OFF, POISON_CRASHES, TRANSITIONS, UNCOUNTED

RETENTION_MS = 7 * 24 * 3600 * 1000
"""Keys of a dispatch live this long after its deadline."""
EVENTS_MAX = 10_000


class Scripts:
    """Runs scripts by name; each is sent once and then called by its digest. Thread-safe."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._known: dict[str, Any] = {}

    def run(self, name: str, keys: Iterable[str], args: Iterable[str | int], *, doing: str) -> Any:
        """Run one script atomically.

        Raises:
            BrokerError: no answer, or an error; `doing` begins its text.
        """
        script = self._known.get(name)
        if script is None:
            script = self._known[name] = self._client.register_script(source_of(name))
        with broker_errors(doing):
            return script(keys=list(keys), args=list(args))


@cache
def source_of(name: str) -> str:
    """The whole text of a script."""
    own = _text(name)
    return "\n".join((_tables(), _text("prelude"), own)) if name in TRANSITIONS else own


def _text(name: str) -> str:
    return (files("mst.fleet") / "lua" / f"{name}.lua").read_text(encoding="utf-8")


def _tables() -> str:
    moves = ", ".join(
        f"{event} = {{{', '.join(f'{source} = {_set(targets)}' for source, targets in rows.items())}}}"
        for event, rows in TRANSITIONS.items()
    )
    return "\n".join(
        (
            f"local MOVES = {{{moves}}}",
            f"local UNCOUNTED, BACKS_OFF = {_set(UNCOUNTED)}, {_set(BACKS_OFF)}",
            f"local RETENTION_MS, EVENTS_MAX, POISON_CRASHES = {RETENTION_MS}, {EVENTS_MAX}, {POISON_CRASHES}",
        )
    )


def _set(names: Iterable[str]) -> str:
    return f"{{{', '.join(f'{name} = true' for name in sorted(names))}}}"
