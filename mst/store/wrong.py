"""What a check of a store finds, and what mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mst.store.commit import MEND as MEND_SHARD
from mst.store.commit import MEND_DISPATCH, MEND_LATEST

_RUN = re.compile(r"/runs/(?P<run>[^/]+)(?:/|$)")
_DISPATCH = re.compile(r"/dispatches/(?P<run>[^/]+)/")

UNLISTED = "what no manifest lists: nothing; a push relies on it for half a day only, and 'mst store gc' takes it"
REPLACED = "a manifest that was replaced: nothing; the next generation counts"


@dataclass(frozen=True)
class Wrong:
    """Something in a store that is not as it was written.

    Attributes:
        key: of the object.
        what: is wrong with it; names files of a pack.
        remedy: what mends it, where its key does not tell.
        unproven: it may be as it was: an earlier version wrote it, without a checksum.
    """

    key: str
    what: str
    remedy: str | None = None
    unproven: bool = False

    @property
    def mend(self) -> str:
        """What is to be mended, and how."""
        if self.remedy is not None:
            return self.remedy
        if self.key.endswith("/latest.json"):
            return f"{self.key}: {MEND_LATEST}"
        if self.key.endswith("/claim.json"):
            return "claim.json: nothing; it still keeps its number taken"
        if (found := _DISPATCH.search(self.key)) is not None:
            return self._mend_dispatch(found["run"])
        if (found := _RUN.search(self.key)) is None:
            return f"{self.key}: push the eval's runs with --repair from where they are"
        return f"{found['run']}: 'mst store push {found['run']} --repair', where a good copy is"

    def _mend_dispatch(self, run: str) -> str:
        over = "of a dispatch that is over, nothing"
        if re.search(r"/shards/\d+/manifest\.json$", self.key):
            return f"{self.key}: {MEND_SHARD}; {over}"
        if self.key.endswith("/dispatch.json"):
            return f"{self.key}: {MEND_DISPATCH}; {over}"
        again = f"'mst attach {run}', then 'mst grade {run} --resume', do again what is lost"
        return f"dispatches of {run}: {again}; {over}"
