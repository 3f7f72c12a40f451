"""Warnings of the store for whoever sits before the terminal: as other lines of a command look, each once."""

from __future__ import annotations

import logging

import click


class _Teller(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if line not in self._told:
            self._told.add(line)
            click.echo(f"mst: {line}", err=True)


def tell_warnings() -> None:
    """From now on."""
    logging.getLogger("mst.store").handlers[:] = [_Teller()]
