"""The durable record, subject by subject."""

from __future__ import annotations

from typing import Protocol

from vgpumgr.model.ports.ledger.claims import Claims
from vgpumgr.model.ports.ledger.fleet import Fleet
from vgpumgr.model.ports.ledger.journal import Journal
from vgpumgr.model.ports.ledger.past import Past
from vgpumgr.model.ports.ledger.promises import Promises
from vgpumgr.model.ports.ledger.queue import Queue
from vgpumgr.model.ports.ledger.quotas import Quotas

__all__ = ["Claims", "Fleet", "Journal", "Ledger", "Past", "Promises", "Queue", "Quotas"]


class Ledger(Fleet, Promises, Queue, Quotas, Journal, Claims, Past, Protocol):
    """Every method is one transaction; none spans a host call."""

    def close(self) -> None:
        """Flush and let go."""
