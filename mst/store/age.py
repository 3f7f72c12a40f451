"""How old objects are, by the store's own clock: this machine's may be wrong."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from mst.errors import StoreUnavailable
from mst.model.keys import segment
from mst.store.contract import Store
from mst.store.layout import clock_key

LEAST_AGE = timedelta(hours=24)
"""Garbage collection never removes anything younger."""
GC_AGE = timedelta(days=7)
"""What it removes by default."""
TRUSTED_AGE = LEAST_AGE / 2
"""A push relies on an object that nothing lists only up to this age, so that no collection can be near."""


def store_now(store: Store, eval_name: str) -> datetime:
    """What time it is for the store: writes a small object of an eval and looks when that was. Two requests."""
    return folder_now(store, segment(eval_name))


def folder_now(store: Store, eval_folder: str) -> datetime:
    """The same, given the eval's folder."""
    key = clock_key(eval_folder)
    store.put(key, secrets.token_hex(8).encode())
    found = store.head(key)
    if found is None:
        raise StoreUnavailable(f"{store.uri}: {key} is gone right after it was written")
    return found.modified
