"""One reading of the ledger: everything planning needs."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.ports import Ledger
from vgpumgr.model.vm import Allocation, VmRecord


@dataclass(frozen=True, slots=True)
class LedgerView:
    """Hosts with their last observation, GPUs, VMs, and the allocations that hold units."""

    fleet: str
    hosts: tuple[HostRecord, ...]
    gpus: tuple[GpuRecord, ...]
    vms: tuple[VmRecord, ...]
    allocations: tuple[Allocation, ...]
    layouts: tuple[LayoutRecord, ...] = ()


def read_host_view(ledger: Ledger, name: str) -> LedgerView:
    """The same for one host: no other's facts and GPUs, but every VM and allocation."""
    return LedgerView(
        fleet=ledger.fleet_id(),
        hosts=(ledger.host(name),),
        gpus=ledger.gpus(name),
        vms=ledger.vms(),
        allocations=ledger.allocations(),
        layouts=ledger.layouts(),
    )


def read_view(ledger: Ledger) -> LedgerView:
    """Read it."""
    return LedgerView(
        fleet=ledger.fleet_id(),
        hosts=ledger.hosts(),
        gpus=ledger.gpus(),
        vms=ledger.vms(),
        allocations=ledger.allocations(),
        layouts=ledger.layouts(),
    )
