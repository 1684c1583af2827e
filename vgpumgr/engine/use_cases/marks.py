"""What an operator, or a use case, marks a host with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


@contextmanager
def marked_while(session: Session, name: str, **fields: Any) -> Iterator[None]:
    """Its record has these fields while the block works, and for good when that ends well. Where
    the block is refused those that nobody has set otherwise meanwhile are as they were.
    """
    before = session.ledger.host(name)
    mark(session, name, **fields)
    try:
        yield
    except BaseException:
        now = session.ledger.host(name)
        mine = (field for field, value in fields.items() if getattr(now, field) == value)
        mark(session, name, **{field: getattr(before, field) for field in mine})
        raise
