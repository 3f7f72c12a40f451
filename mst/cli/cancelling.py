"""Asking a run's coordinator, in whatever process it is, to stop: a file in the run folder that it looks for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mst.config.files import write_atomic
from mst.config.settings import Settings
from mst.runs.folder import RunFolder
from mst.shards.contract import Cancel

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


def cancel_dispatches(run_id: str) -> bool:
    """Cancel a run's open dispatches at the broker; returns whether there was one. False without a broker."""
    broker_url = Settings.from_environment().broker_url
    return broker_url is not None and _cancel(broker_url, run_id)


def _cancel(broker_url: str, run_id: str) -> bool:
    from mst.fleet.connect import connect
    from mst.fleet.dispatch_book import DispatchBook
    from mst.fleet.ledger_records import Head
    from mst.fleet.ledger_states import FINAL

    client = connect(broker_url)
    try:
        book = DispatchBook(client)

        def cancel(head: Head) -> bool:
            if head.run_id != run_id or all(entry.state in FINAL for _, entry in book.entries(head)):
                return False
            book.cancel(head, "cancelled by the user")
            return True

        return any(list(book.read_open(cancel)))
    finally:
        client.close()
