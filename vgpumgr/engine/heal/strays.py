"""What VMs that are gone left on a host, and units that nothing stands for any more. Pure."""

from __future__ import annotations

from vgpumgr.engine.heal.case import Case
from vgpumgr.engine.heal.remedy import Remedy, Way, Whose, needs_you
from vgpumgr.engine.steps import (
    OFF,
    ConfirmGone,
    DeactivatePartition,
    ForgetDomain,
    ReleaseDevice,
    Step,
)
from vgpumgr.engine.supply import claim_unit
from vgpumgr.model import claim_units
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.host import ClaimFacts
from vgpumgr.model.vm import Allocation

_NOT_PROVEN = "the ledger never knew it, or is an older copy: nothing proves that it may go"


def domain_leftover(case: Case) -> Remedy:
    """Undefined if the ledger knows its VM as deleted, and it is off."""
    found = case.domain(case.drift.subject.removeprefix("domain "))
    if found is None or found.ownership is None:
        return needs_you(case.drift, "it is already gone", "vgpumgr heal")
    whose = Whose(found.ownership.vm_id, found.name)
    if whose.id not in case.known.past.deleted:
        return needs_you(case.drift, _NOT_PROVEN)
    return _forget(case, whose, "its VM was deleted: undefine it")


def domain_elsewhere(case: Case) -> Remedy:
    """Undefined if it is off, and its VM is seen defined where it belongs."""
    vm = case.vm
    home = case.known.seen.get(vm.host)
    there = home and next((d for d in home.facts.domains if d.name == vm.name), None)
    mark = there.ownership if there else None
    if mark is None or mark.vm_id != vm.id:
        return needs_you(case.drift, f"it is not seen on {vm.host}, where it belongs")
    name = case.drift.subject.removeprefix("domain ")
    return _forget(case, Whose(vm.id, name), f"it is on {vm.host}: undefine it here")


def _forget(case: Case, whose: Whose, text: str) -> Remedy:
    """A domain that is not off may run twice, or be somebody's work: it is named only."""
    found = case.domain(whose.name)
    if found is None or found.state not in OFF:
        state = found.state if found else "gone"
        return needs_you(case.drift, f"it is {state}: only what is off is removed")
    step = ForgetDomain(name=whose.name, vm_id=whose.id)
    return Remedy(drift=case.drift, way=Way.CLEAN, text=text, steps=(step,), whose=whose)


def claim_leftover(case: Case) -> Remedy:
    """Given back if the ledger knows its allocation as released, and nothing names the device."""
    unit = case.drift.subject
    if unit.startswith(claim_units.LAYOUT):
        declare = f"vgpumgr adopt {case.drift.host} --layout"
        return needs_you(
            case.drift, "no layout declares how the GPU should be partitioned", declare
        )
    claim = next((each for each in case.seen.facts.claims if each.unit == unit), None)
    ended = case.known.past.released.get(claim.allocation) if claim else None
    if claim is None or ended is None or not _is_of(claim, ended):
        return needs_you(case.drift, _NOT_PROVEN)
    if users := case.users(ended):
        return needs_you(case.drift, f"domain {users[0]} names its device")
    return Remedy(
        drift=case.drift,
        way=Way.CLEAN,
        text=f"{ended.vm} gave it back: release it and its claim",
        steps=(_release(unit, ended),),
        whose=Whose(ended.vm_id, ended.vm),
    )


def _is_of(claim: ClaimFacts, ended: Allocation) -> bool:
    units = {claim_unit(ended)}
    if ended.partition is not None:
        units.add(claim_units.fabric(ended.partition))
    return claim.unit in units and claim.generation == ended.generation


def _release(unit: str, ended: Allocation) -> Step:
    if unit.startswith(claim_units.FABRIC) and ended.partition is not None:
        return DeactivatePartition(partition=ended.partition, allocation=ended)
    return ReleaseDevice(allocation=ended)


def is_orphan(case: Case) -> bool:
    """Is nothing of its VM on its host, and can it not be brought back there?

    No domain, and of all that it holds no device and no claim; its disks are gone with them, or
    its domain is on another host.
    """
    kinds, held = {each.kind for each in case.others}, case.held
    missing = DriftKind.DOMAIN_MISSING
    gone = any(each.kind is missing and each.found == "missing" for each in case.others)
    lost = bool(held) and all(case.lost(each) for each in held)
    return gone and lost and bool(kinds & {DriftKind.DOMAIN_ELSEWHERE, DriftKind.VOLUME_MISSING})


def release(case: Case) -> Remedy:
    """The units are free for others after a second look; the VM itself stays in the ledger."""
    vm, held = case.vm, case.held
    step = ConfirmGone(name=vm.name, vm_id=vm.id, allocations=held)
    count = sum(len(each.slots) for each in held)
    return Remedy(
        drift=case.drift,
        way=Way.RELEASE,
        text=f"nothing of {vm.name} is left on {vm.host}: after a second check, free {count} slots",
        steps=(step,),
        whose=case.whose,
    )
