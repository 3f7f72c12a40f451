"""Where the fleet's log goes: to stderr, as JSON lines for machines, or as a command's own words for people.

Never to stdout, which is structlog's default and a command's answer.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog


def log_for_machines(level: str) -> None:
    """JSON lines: events with bound run, shard and attempt, as workers and services write them.

    What libraries say of their own doings is shown at level debug alone, and Celery's as ours is.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    theirs = number if number <= logging.DEBUG else max(number, logging.WARNING)
    logging.basicConfig(level=theirs, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("celery").setLevel(number)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_stderr,
    )


def log_for_people() -> None:
    """Warnings alone, as `mst: REASON`; what is tried again and again is said once, until something else is."""
    structlog.configure(
        processors=[_Changes()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=_stderr,
    )


def _stderr(*_: object) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)


class _Changes:
    """Renders events, and drops one that says the same as the one before."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, _logger: object, _level: str, event: MutableMapping[str, Any]) -> str:
        said = f"mst: {event.get('reason') or event['event'].replace('_', ' ')}"
        if said == self._last:
            raise structlog.DropEvent
        self._last = said
        return said
