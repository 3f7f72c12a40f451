"""Asking a run's coordinator, in whatever process it is, to stop: a file in the run folder that it looks for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mst.config.files import write_atomic
from mst.config.settings import Settings
from mst.runs.folder import RunFolder
from mst.shards.contract import Cancel
from mst.shards.coordinate import plans_of

if TYPE_CHECKING:
    from mst.fleet.ledger_records import Head

REQUEST = "cancel"
LOOK_EVERY_S = 0.5


@contextmanager
def cancelled_on_request(folder: RunFolder, cancel: Cancel) -> Iterator[None]:
    """Watch for a request to stop while the block runs."""
    path = folder.work / REQUEST
    path.unlink(missing_ok=True)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_EVERY_S):
            if path.exists():
                cancel.set("cancelled by the user")
                return

    thread = threading.Thread(target=watch, daemon=True, name="mst-cancel")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        path.unlink(missing_ok=True)


def ask_coordinator(folder: RunFolder) -> None:
    """Leave the request where the run's coordinator will see it."""
    write_atomic(folder.work / REQUEST, b"cancel\n")


def cancel_dispatches(folder: RunFolder) -> bool:
    """Cancel the run's open dispatches at the broker; returns whether there was one. False without a broker."""
    broker_url = Settings.from_environment().broker_url
    plans = [*plans_of(folder.work, "collect"), *plans_of(folder.work, "grade")]
    if broker_url is None or not plans:
        return False
    from mst.model.fleet import scope_name

    firsts = [plan.specs[0] for plan in plans]
    scopes = {scope_name(first.run_id, first.dispatch, first.work) for first in firsts}
    return _cancel(broker_url, lambda head: head.scope in scopes)


def cancel_elsewhere(run_id: str) -> bool:
    """The same for a run that this machine does not have."""
    broker_url = Settings.from_environment().broker_url
    return broker_url is not None and _cancel(broker_url, lambda head: head.run_id == run_id)


def _cancel(broker_url: str, is_meant: Callable[[Head], bool]) -> bool:
    from mst.fleet.connect import connect
    from mst.fleet.dispatch_book import DispatchBook
    from mst.fleet.ledger_states import FINAL

    client = connect(broker_url)
    try:
        book = DispatchBook(client)
        found = False
        for head in map(book.head, book.open_dispatches()):
            if head is None or head.closed or not is_meant(head):
                continue
            if any(entry.state not in FINAL for _, entry in book.entries(head)):
                book.cancel(head, "cancelled by the user")
                found = True
        return found
    finally:
        client.close()
