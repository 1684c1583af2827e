"""MAC addresses and machine UUIDs that users chose: each is one NIC's, or one VM's, alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from vgpumgr.model.errors import Conflict
from vgpumgr.model.vm import VmRecord, VmSpec


def refuse_shared(desired: Iterable[VmSpec], vms: Iterable[VmRecord]) -> None:
    """Conflict where two NICs are to have one address, or two VMs one UUID, of these specs or of
    the fleet's VMs.
    """
    wanted = list(desired)
    names = {spec.name for spec in wanted}
    others = [vm for vm in vms if vm.name not in names]
    if any(nic.mac for spec in wanted for nic in spec.nics):
        _refuse("mac", "MAC address", [vm.spec for vm in others], wanted, _macs)
    if any(spec.uuid for spec in wanted):
        ids = {vm.id: vm.name for vm in others}
        for spec in wanted:
            if spec.uuid in ids:
                raise _refused("uuid", "UUID", spec.name, spec.uuid, ids[spec.uuid])
        _refuse("uuid", "UUID", [vm.spec for vm in others], wanted, _uuid)


def _macs(spec: VmSpec) -> Iterator[str]:
    return (nic.mac for nic in spec.nics if nic.mac)


def _uuid(spec: VmSpec) -> Iterator[str]:
    return iter((spec.uuid,) if spec.uuid else ())


def _refuse(
    key: str,
    what: str,
    others: Iterable[VmSpec],
    wanted: Iterable[VmSpec],
    given: Callable[[VmSpec], Iterator[str]],
) -> None:
    holders: dict[str, str] = {}
    for spec in [*others, *wanted]:
        for each in given(spec):
            if each in holders:
                raise _refused(key, what, spec.name, each, holders[each])
            holders[each] = spec.name


def _refused(key: str, what: str, name: str, value: str, holder: str) -> Conflict:
    return Conflict(
        f"{name} cannot have the {what} {value}",
        why=f"{holder} has it",
        next=f"leave {key} out, or choose another one",
    )
