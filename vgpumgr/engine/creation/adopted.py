"""The definition of an adopted VM: the one that it came with, changed only where its spec was."""

from __future__ import annotations

from collections.abc import Collection

from vgpumgr import domainxml
from vgpumgr.engine.adoption.spec import FIXED, spec_of
from vgpumgr.model.domain import Ownership
from vgpumgr.model.errors import Conflict
from vgpumgr.model.vm import VmRecord, VmSpec


def adopted_xml(vm: VmRecord, mark: Ownership, devices: Collection[str]) -> str:
    """Its domain XML. Conflict for a change that its spec cannot bring about, and where it holds
    other ``devices`` than it came with: nobody knows how to define it with those.
    """
    came = domainxml.described(vm.definition)
    was = spec_of(came, vm.spec.hugepage_kib)
    assert isinstance(was, VmSpec), "what could not be described was not adopted"
    _refuse_changes(vm, was)
    gone = set(devices) - {device.device for device in came.devices}
    if gone:
        raise _refused(vm, f"it was adopted with other devices than {min(gone)}")
    try:
        return domainxml.adopted(
            vm.definition,
            mark,
            memory_mib=vm.spec.memory_mib if vm.spec.memory_mib != was.memory_mib else None,
            vcpus=vm.spec.vcpus if vm.spec.vcpus != was.vcpus else None,
        )
    except ValueError as error:
        raise _refused(vm, str(error)) from error


def _refuse_changes(vm: VmRecord, was: VmSpec) -> None:
    changed = [name for name in FIXED if getattr(vm.spec, name) != getattr(was, name)]
    if changed:
        raise _refused(vm, f"{', '.join(changed)} of an adopted VM are not changed by its file")


def _refused(vm: VmRecord, why: str) -> Conflict:
    return Conflict(
        f"{vm.name} cannot be defined so",
        why=why,
        next=f"vgpumgr vm show {vm.name}; by hand: virsh edit {vm.name}",
    )
