"""What a coordinator does about expiring credentials while it follows a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import structlog

from mst.config.secrets import read_expiries, read_secrets_file
from mst.errors import ConfigError
from mst.fleet.dispatch_book import DispatchBook
from mst.fleet.grants import GRANT_GRACE, GrantSlots
from mst.fleet.host import Send, send_shard
from mst.fleet.ledger import Ledger
from mst.fleet.ledger_records import Head
from mst.fleet.signing import Verifier
from mst.fleet.tokens import Credentials, TokenDesk
from mst.model.fleet import Envelope, TrustedSigners

log = structlog.get_logger(__name__)


def credentials(path: Path, names: Sequence[str]) -> Credentials:
    """What a secrets file holds now of some names.

    Raises:
        ConfigError: unreadable; whoever writes it should write it whole.
    """
    values, expires = read_secrets_file(path), read_expiries(path)
    return Credentials(
        {name: values[name] for name in names if name in values},
        {name: expires[name] for name in names if name in expires},
    )


@dataclass
class Renewer:
    """Answers workers that ask, and lets shards that wait go on once the secrets file holds something newer."""

    desk: TokenDesk
    book: DispatchBook
    ledger: Ledger
    grants: GrantSlots
    head: Head
    recipients: tuple[str, ...]
    send: Send
    _trouble: str = field(default="", init=False)

    def tend(self, waiting: Sequence[int]) -> None:
        """Do what is due. Repeating is harmless.

        Raises:
            BrokerError: no answer; later then.
        """
        try:
            self.desk.answer()
            if waiting:
                self._let_go_on(waiting)
        except ConfigError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("secrets_file", reason=str(error)[:300])

    def _let_go_on(self, waiting: Sequence[int]) -> None:
        found = self.desk.read()
        if not found.are_good(datetime.now(UTC)):
            return
        # the grant first: whoever is sent the shard opens the newest
        own = Verifier(TrustedSigners(signers=[self.desk.key.entry(evals=["*"], queues=["*"])]))
        issue = self.grants.next_issue(self.desk.target, own)
        sealed = self.desk.sealed(found, self.recipients, issue=issue)
        self.grants.put(self.desk.target, sealed, issue=issue, forget_at=self.desk.forget_at + GRANT_GRACE)
        entries = dict(self.book.entries(self.head))
        for shard in waiting:
            ref = self.head.ref(shard)
            signed = self.book.envelope(ref)
            if signed is not None and self.ledger.requeue(ref).answer == "queued":
                send_shard(
                    self.send, self.ledger, signed, Envelope.model_validate(signed.payload), entries[shard].n + 1
                )
