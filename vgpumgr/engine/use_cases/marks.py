"""What an operator, or a use case, marks a host with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vgpumgr.engine.session import Session
from vgpumgr.engine.use_cases.attempts import until_current
from vgpumgr.model.host import HostRecord

# The fields of a host that is not being emptied (any more).
DRAINED: Mapping[str, Any] = MappingProxyType(
    {"draining": False, "drain_to": (), "logoff_by": None}
)


def mark(session: Session, name: str, **fields: Any) -> HostRecord:
    """Set these fields of its record, whatever else changes it meanwhile; the record as it is."""

    def attempt() -> HostRecord:
        record = session.ledger.host(name)
        wanted = replace(record, **fields)
        if wanted != record:
            session.ledger.update_host(wanted)
        return session.ledger.host(name)

    return until_current(attempt)
