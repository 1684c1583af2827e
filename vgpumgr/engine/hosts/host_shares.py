"""How hot each host is, and which of its VMs a hot one would best give to a cooler one; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.supply import HostSupply
from vgpumgr.model.vm import VmRecord, VmState


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """What is taken of a host, as shares: of the vCPUs and the memory that it offers when nothing
    is on it, and ``load``, how much its GPUs work (0 where that is not measured). ``open``: it
    takes VMs.
    """

    host: str
    cpu: float
    memory: float
    load: float = 0.0
    open: bool = True

    @property
    def heat(self) -> float:
        """The largest of them."""
        return max(self.cpu, self.memory, self.load)

    def with_vm(self, part: HostShare, sign: int = 1) -> HostShare:
        """It with a VM more, or with one less (``sign`` -1), which is that part of it."""
        return replace(
            self,
            cpu=self.cpu + sign * part.cpu,
            memory=self.memory + sign * part.memory,
            load=max(0.0, self.load + sign * part.load),
        )


class HostShares:
    """All hosts that answered, and the part that each VM is of one. ``loads`` are how much the GPUs
    of hosts work, from 0 to 1: each of a host's VMs with a GPU part is taken for as much of it.
    """

    def __init__(self, view: LedgerView, loads: Mapping[str, float]) -> None:
        self._supplies = {host.name: host for host in build_fleet(view).hosts if host.vcpus}
        self._loads = loads
        self._at_work = [each for each in view.vms if each.running and each.spec.gpus]
        self.now = {name: self._of(each) for name, each in self._supplies.items()}

    def _of(self, supply: HostSupply) -> HostShare:
        return HostShare(
            host=supply.name,
            cpu=1 - supply.free_vcpus / supply.vcpus,
            memory=1 - supply.free_memory_mib / supply.memory_mib if supply.memory_mib else 1.0,
            load=self._loads.get(supply.name, 0.0),
            open=not supply.blocked,
        )

    def part(self, vm: VmRecord, host: str) -> HostShare:
        """The part of that host that the VM is, or would be."""
        supply, sharing = self._supplies[host], sum(vm.host == each.host for each in self._at_work)
        works = vm in self._at_work
        return HostShare(
            host=host,
            cpu=vm.spec.vcpus / supply.vcpus,
            memory=vm.spec.memory_mib / supply.memory_mib if supply.memory_mib else 0.0,
            load=self._loads.get(vm.host, 0.0) / sharing if works and sharing else 0.0,
        )


def hottest(shares: Iterable[HostShare], hot: float) -> HostShare | None:
    """The host that is hotter than ``hot``, and than all others; None where none is."""
    found = [each for each in shares if each.heat > hot]
    return max(found, key=lambda each: (each.heat, each.host), default=None)


def candidates(
    vms: Iterable[VmRecord], share: HostShare, parts: HostShares, hot: float
) -> Iterator[VmRecord]:
    """The VMs of a hot host, that first which is the least that cools it enough; where none does
    alone, the largest first.
    """
    ranked = []
    for vm in vms:
        if vm.host != share.host or vm.state is not VmState.ACTIVE:
            continue
        left = share.with_vm(parts.part(vm, share.host), -1).heat
        if left < share.heat:
            enough = left <= hot
            ranked.append(((not enough, -left if enough else left, vm.name), vm))
    return (vm for _, vm in sorted(ranked, key=lambda each: each[0]))


def coolers(
    vm: VmRecord, shares: Mapping[str, HostShare], parts: HostShares, hot: float
) -> tuple[str, ...]:
    """The hosts that would not be hot with it, the coolest first."""
    with_it = (
        (each.with_vm(parts.part(vm, name)).heat, name)
        for name, each in shares.items()
        if name != vm.host and each.open
    )
    return tuple(name for heat, name in sorted(with_it) if heat <= hot)
