"""The VFs that are NICs of a VM: the steps that take, read back and release them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256

from vgpumgr.domainxml import Described
from vgpumgr.engine.steps.nic_steps import (
    CheckNicFunctions,
    NicFunction,
    ReleaseNicFunction,
    TakeNicFunction,
)
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.host import HostFacts
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.vm import VmRecord, VmState
from vgpumgr.model.vm_devices import NicSpec


def mac_address(vm_id: str, number: int) -> str:
    """A stable MAC in QEMU's range (52:54:00) for a VM's n-th NIC."""
    digest = sha256(f"{vm_id}/{number}".encode()).hexdigest()
    return f"52:54:00:{digest[0:2]}:{digest[2:4]}:{digest[4:6]}"


def nic_functions(vm: VmRecord) -> dict[int, NicFunction]:
    """The VFs that a VM holds, by the number of the NIC: none while it is shelved."""
    held = iter(() if vm.state is VmState.SHELVED else vm.nic_functions)
    found: dict[int, NicFunction] = {}
    for number, nic in enumerate(vm.spec.nics):
        address = next(held, "") if nic.sriov is not None else ""
        if nic.sriov is not None and address:
            found[number] = NicFunction(
                address=address,
                mac=(nic.mac or mac_address(vm.id, number)).lower(),
                vlan=nic.sriov.vlan or 0,
                trust=nic.sriov.trust,
                spoof_check=nic.sriov.spoof_check,
            )
    return found


def take_nics(vm: VmRecord, was: VmRecord | None = None) -> tuple[TakeNicFunction, ...]:
    """Every VF of the VM; one that it had, as ``was``, is taken as it is to be now."""
    before = {each.address: each for each in nic_functions(was).values()} if was else {}
    return tuple(
        TakeNicFunction(name=vm.name, vm_id=vm.id, function=each, before=before.get(each.address))
        for each in nic_functions(vm).values()
    )


def check_nics(vm: VmRecord) -> tuple[Step, ...]:
    """The step that reads them back, where there are any."""
    found = tuple(nic_functions(vm).values())
    return (CheckNicFunctions(name=vm.name, vm_id=vm.id, functions=found),) if found else ()


def sriov_nics(facts: HostFacts) -> dict[str, SriovNic]:
    """The VFs of a host's NICs by address, as the VMs asked that have them: by their claims."""
    wanted = {str(each.wanted.get("address")): each.wanted for each in facts.claims}
    return {
        vf.address: SriovNic(
            physical=nic.name,
            trust=wanted.get(vf.address, {}).get("trust") is True,
            spoof_check=wanted.get(vf.address, {}).get("spoof_check") is not False,
        )
        for nic in facts.nics
        for vf in nic.vfs
    }


def with_vfs(domain: Described, vfs: Mapping[str, SriovNic]) -> list[NicSpec | None]:
    """The NICs of a domain; one that is a VF is as it was asked for."""
    found = list(domain.nics)
    for number, nic in domain.vfs.items():
        if nic.function in vfs:
            sriov = replace(vfs[nic.function], vlan=nic.tuning.vlan)
            found[number] = NicSpec(mac=nic.mac, sriov=sriov)
    return found


def release_nics(vm: VmRecord, but: Iterable[str] = ()) -> tuple[Step, ...]:
    """Every VF that the VM has, ``but`` for what it keeps."""
    kept = frozenset(but)
    return tuple(
        ReleaseNicFunction(name=vm.name, vm_id=vm.id, address=address)
        for address in vm.nic_functions
        if address not in kept
    )
