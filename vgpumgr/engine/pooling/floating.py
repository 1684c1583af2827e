"""Desktops that one may lose: whoever is on one gets another."""

from __future__ import annotations

from vgpumgr.model.pool import PoolKind
from vgpumgr.model.ports import Ledger


def floating_desktops(ledger: Ledger) -> dict[str, str]:
    """Ids of the VMs that are desktops of floating pools, and their pools' names."""
    pools = {each.id: each.name for each in ledger.pools() if each.spec.kind is PoolKind.FLOATING}
    if not pools:
        return {}
    rows = (row for row in ledger.desktops() if row.pool in pools and row.vm_id)
    return {row.vm_id: pools[row.pool] for row in rows}
