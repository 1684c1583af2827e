"""A host's marks in the ledger: cordons with their reasons, and how it is fenced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from vgpumgr.engine.operations import operation_lifecycle
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.operation_lifecycle import until_current
from vgpumgr.engine.operations.operation_outcome import Outcome
from vgpumgr.engine.reservation.autostart import autostart_reservation, is_to_set
from vgpumgr.model.host import Fence, HostRecord

# The fields of a host that is not being emptied (any more).
DRAINED: Mapping[str, Any] = MappingProxyType(
    {"draining": False, "drain_to": (), "logoff_by": None}
)


def mark(context: EngineContext, name: str, **fields: Any) -> HostRecord:
    """Set these fields of its record, whatever else changes it meanwhile; the record as it is."""

    def attempt() -> HostRecord:
        record = context.ledger.host(name)
        wanted = replace(record, **fields)
        if wanted != record:
            context.ledger.update_host(wanted)
        return context.ledger.host(name)

    return until_current(attempt)


@contextmanager
def marked_while(context: EngineContext, name: str, **fields: Any) -> Iterator[None]:
    """Give the host's record these fields while the block works, and for good when it succeeds.
    Where the block is refused, fields that no other process has set meanwhile are restored.
    """
    before = context.ledger.host(name)
    mark(context, name, **fields)
    try:
        yield
    except BaseException:
        now = context.ledger.host(name)
        mine = (field for field, value in fields.items() if getattr(now, field) == value)
        mark(context, name, **{field: getattr(before, field) for field in mine})
        raise


def fence(context: EngineContext, name: str, wanted: Fence | None) -> Outcome:
    """Set how it is switched off (None: not at all), then autostart of its VMs as follows from it.

    The block stands at once: what is defined from then on has no autostart there.
    """
    record = mark(context, name, fence=wanted)
    vms = [vm for vm in context.ledger.vms() if is_to_set(vm, record)]
    return operation_lifecycle.begin(context, autostart_reservation(vms, record, context.opening()))
