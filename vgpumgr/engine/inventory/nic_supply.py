"""Supply of a host's NICs with SR-IOV: which VFs may be given to VMs, and why none may."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.engine.inventory.gpu_usage import HostContents, foreign_holder
from vgpumgr.model import formats
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.nic import NicFacts
from vgpumgr.model.supply import FreeVf, NicSupply
from vgpumgr.model.vm import VmRecord, VmState


def nic_supplies(
    host: HostRecord, facts: HostFacts, vms: Iterable[VmRecord], contents: HostContents
) -> tuple[NicSupply, ...]:
    """The supply of every NIC after what VMs hold, and what the host and foreign domains use. A VM
    that is shelved, or seen as if it were off, holds none.
    """
    if not facts.nics:
        return ()
    everything = tuple(vms)
    here = (vm for vm in everything if vm.state is not VmState.SHELVED)
    held = {address for vm in here for address in vm.nic_functions}
    away = {vm.id for vm in everything if vm.state is VmState.SHELVED}
    claimed = {claim.unit for claim in facts.claims if claim.allocation not in away}
    return tuple(_supply(nic, host, facts, held, claimed, contents) for nic in facts.nics)


def _supply(
    nic: NicFacts,
    host: HostRecord,
    facts: HostFacts,
    held: set[str],
    claimed: set[str],
    contents: HostContents,
) -> NicSupply:
    networks = (name for name, nics in host.physical_networks.items() if nic.name in nics)
    return NicSupply(
        name=nic.name,
        path=nic.path,
        numa_node=nic.numa_node,
        networks=tuple(sorted(networks)),
        vfs=tuple(FreeVf(number=vf.number, address=vf.address) for vf in nic.vfs),
        free=tuple(
            FreeVf(number=vf.number, address=vf.address)
            for vf in nic.vfs
            if vf.address not in held
            and formats.pci_claim(vf.address) not in claimed
            and not vf.busy
            and not foreign_holder(vf.address, contents)
        ),
        blocked=_blocked(nic, facts),
    )


def _blocked(nic: NicFacts, facts: HostFacts) -> str:
    """libvirt sets a VF's address and VLAN by its PF's interface, and refuses one that is down."""
    if not facts.iommu:
        return f"without an IOMMU no VF of {nic.name} can be given to a VM"
    return "" if nic.up else f"{nic.name} is down: ip link set dev {nic.name} up"
