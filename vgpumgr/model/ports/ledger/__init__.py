"""The durable record, subject by subject."""

from __future__ import annotations

from typing import Protocol

from vgpumgr.model.ports.ledger.claims import Claims
from vgpumgr.model.ports.ledger.fleet import Fleet
from vgpumgr.model.ports.ledger.images import Images
from vgpumgr.model.ports.ledger.journal import Journal
from vgpumgr.model.ports.ledger.past import Past
from vgpumgr.model.ports.ledger.pools import Pools
from vgpumgr.model.ports.ledger.promises import Promises
from vgpumgr.model.ports.ledger.queue import Queue
from vgpumgr.model.ports.ledger.quotas import Quotas
from vgpumgr.model.ports.ledger.tickets import Tickets

__all__ = [
    "Claims",
    "Fleet",
    "Images",
    "Journal",
    "Ledger",
    "Past",
    "Pools",
    "Promises",
    "Queue",
    "Quotas",
    "Tickets",
]


class Ledger(
    Fleet, Promises, Queue, Quotas, Pools, Images, Journal, Tickets, Claims, Past, Protocol
):
    """Every method is one transaction; none spans a host call."""

    def close(self) -> None:
        """Flush and let go."""
