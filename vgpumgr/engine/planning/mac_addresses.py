"""MAC addresses that users chose: each is one NIC's alone."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.model.errors import Conflict
from vgpumgr.model.vm import VmRecord, VmSpec


def refuse_shared_macs(desired: Iterable[VmSpec], vms: Iterable[VmRecord]) -> None:
    """Conflict where two NICs are to have one address, of these specs or of the fleet's VMs."""
    wanted = list(desired)
    if not any(nic.mac for spec in wanted for nic in spec.nics):
        return
    names = {spec.name for spec in wanted}
    holders: dict[str, str] = {}
    for spec in [*(vm.spec for vm in vms if vm.name not in names), *wanted]:
        for mac in (nic.mac for nic in spec.nics if nic.mac):
            if mac in holders:
                raise Conflict(
                    f"{spec.name} cannot have the MAC address {mac}",
                    why=f"{holders[mac]} has it",
                    next="leave mac out, or choose another one",
                )
            holders[mac] = spec.name
