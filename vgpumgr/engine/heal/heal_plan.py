"""The remedy of every drift, the remains of deleted VMs included."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vgpumgr.engine.drift.host_comparison import DomainReads
from vgpumgr.engine.heal import vm_remedies
from vgpumgr.engine.heal.orphans import is_orphan, release
from vgpumgr.engine.heal.remedy import (
    DriftCase,
    EndedRecords,
    HealEvidence,
    Remedy,
    RemedyVm,
    RemedyWay,
    needs_you,
)
from vgpumgr.engine.inventory.gpu_usage import claim_unit
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.layouts import layout_plan
from vgpumgr.engine.reservation.vm_creation import VmSites
from vgpumgr.engine.steps.device_steps import DeactivatePartition, ReleaseDevice
from vgpumgr.engine.steps.repair_steps import ForgetDomain
from vgpumgr.engine.steps.step import Step
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import OFF
from vgpumgr.model.drift import DriftKind, DriftReport
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.host import ClaimFacts

_NOT_PROVEN = "the ledger never knew it, or is an older copy: nothing proves that it may go"


def domain_leftover(case: DriftCase) -> Remedy:
    """Undefined if the ledger knows its VM as deleted, and it is off."""
    found = case.domain(case.drift.subject.removeprefix("domain "))
    if found is None or found.ownership is None:
        return needs_you(case.drift, "it is already gone", "vgpumgr heal")
    whose = RemedyVm(found.ownership.vm_id, found.name)
    if whose.id not in case.known.past.deleted:
        return needs_you(case.drift, _NOT_PROVEN)
    return _forget(case, whose, "its VM was deleted: undefine it")


def domain_elsewhere(case: DriftCase) -> Remedy:
    """Undefined if it is off, and its VM is seen defined where it belongs."""
    vm = case.vm
    home = case.known.seen.get(vm.host)
    there = home and next((d for d in home.facts.domains if d.name == vm.name), None)
    mark = there.ownership if there else None
    if mark is None or mark.vm_id != vm.id:
        return needs_you(case.drift, f"it is not seen on {vm.host}, where it belongs")
    name = case.drift.subject.removeprefix("domain ")
    return _forget(case, RemedyVm(vm.id, name), f"it is on {vm.host}: undefine it here")


def _forget(case: DriftCase, whose: RemedyVm, text: str) -> Remedy:
    """The remedy for a domain that remains: named only unless it is off, for it may be in use."""
    found = case.domain(whose.name)
    if found is None or found.state not in OFF:
        state = found.state if found else "gone"
        return needs_you(case.drift, f"it is {state}: only what is off is removed")
    step = ForgetDomain(name=whose.name, vm_id=whose.id)
    return Remedy(drift=case.drift, way=RemedyWay.CLEAN, text=text, steps=(step,), whose=whose)


def claim_leftover(case: DriftCase) -> Remedy:
    """Given back if the ledger knows its allocation as released, and nothing names the device."""
    unit = case.drift.subject
    if unit.startswith(formats.LAYOUT_CLAIM):
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
        way=RemedyWay.CLEAN,
        text=f"{ended.vm} gave it back: release it and its claim",
        steps=(_release(unit, ended),),
        whose=RemedyVm(ended.vm_id, ended.vm),
    )


def _is_of(claim: ClaimFacts, ended: Allocation) -> bool:
    units = {claim_unit(ended)}
    if ended.partition is not None:
        units.add(formats.fabric_claim(ended.partition))
    return claim.unit in units and claim.generation == ended.generation


def _release(unit: str, ended: Allocation) -> Step:
    if unit.startswith(formats.FABRIC_CLAIM) and ended.partition is not None:
        return DeactivatePartition(partition=ended.partition, allocation=ended)
    return ReleaseDevice(allocation=ended)


_UNITS = frozenset({DriftKind.DEVICE_MISSING, DriftKind.CLAIM_MISSING})


def plan(
    report: DriftReport, view: LedgerView, seen: Mapping[str, DomainReads], past: EndedRecords
) -> tuple[Remedy, ...]:
    """A remedy for every difference of a report, in its order.

    What was not read is in no report, and nothing is concluded from it.
    """
    known = HealEvidence(view=view, seen=seen, past=past, sites=VmSites(view), drifts=report.drifts)
    return tuple(_remedy(DriftCase(drift, known)) for drift in report.drifts)


def _remedy(case: DriftCase) -> Remedy:
    drift = case.drift
    if drift.kind in _ALWAYS:
        return needs_you(drift, _ALWAYS[drift.kind])
    if away := _away(case):
        return needs_you(drift, *away)
    try:
        return _OF_VMS[drift.kind](case) if drift.kind in _OF_VMS else _OTHERS[drift.kind](case)
    except VgpumgrError as refused:
        return needs_you(drift, refused.why or refused.message, refused.next)


def _away(case: DriftCase) -> tuple[str, str] | None:
    """Why a host is left alone, and the command to use: it is in maintenance, was evacuated, or
    lost all its marks and may be another machine.
    """
    host = case.host
    for each in case.known.drifts:
        if (each.kind, each.host) == (DriftKind.REINSTALLED, host.name):
            return f"{host.name} was reinstalled: decide VM by VM", each.next
    if host.maintenance:
        return f"{host.name} is in maintenance", f"vgpumgr host show {host.name}"
    if host.evacuated:
        return f"{host.name} was evacuated", f"vgpumgr host show {host.name}"
    return None


def _unfinished(case: DriftCase) -> Remedy:
    if case.drift.gpu:
        return _layout(case)
    text = f"resume {case.drift.subject}"
    return Remedy(drift=case.drift, way=RemedyWay.RESUME, text=text)


def _layout(case: DriftCase) -> Remedy:
    """The remedy for a layout, which ``layout apply`` refuses while a guest uses the GPU."""
    for change in layout_plan.plan(case.known.view, None).gpus:
        if change.gpu == case.drift.gpu and change.refused:
            return needs_you(case.drift, change.refused, change.next)
    return Remedy(
        drift=case.drift, way=RemedyWay.LAYOUT, text="partition it as its layout declares"
    )


def _gpu_lost(case: DriftCase) -> Remedy:
    gpu = next(each for each in case.known.view.gpus if each.id == case.drift.gpu)
    if gpu.state is GpuState.QUARANTINED:
        again = f"reboot {gpu.host}, or replace the board, then vgpumgr heal --lift {gpu.id}"
        return needs_you(case.drift, "it is quarantined", again)
    text = "quarantine it: it takes no VM until it is lifted"
    return Remedy(drift=case.drift, way=RemedyWay.QUARANTINE, text=text)


def _foreign(case: DriftCase) -> Remedy:
    return Remedy(
        drift=case.drift,
        way=RemedyWay.LEAVE,
        text="it is foreign, and left alone",
        next=f"vgpumgr adopt {case.drift.host}",
    )


def _of_vm(heal: Callable[[DriftCase], Remedy]) -> Callable[[DriftCase], Remedy]:
    """A remedy for a VM, unless something else about it must be settled by a person first."""

    def judged(case: DriftCase) -> Remedy:
        if case.drift.kind in _UNITS and is_orphan(case):
            return release(case)
        first = next((d for d in case.others if d.kind in vm_remedies.BLOCKING), None)
        if first is not None:
            return needs_you(case.drift, f"{first.kind} of {first.vm} comes first", first.next)
        return heal(case)

    return judged


_OF_VMS: dict[DriftKind, Callable[[DriftCase], Remedy]] = {
    kind: _of_vm(heal)
    for kind, heal in (
        (DriftKind.DOMAIN_MISSING, vm_remedies.domain_missing),
        (DriftKind.DOMAIN_TRANSIENT, vm_remedies.domain_transient),
        (DriftKind.MARK, vm_remedies.mark),
        (DriftKind.POWER, vm_remedies.power),
        (DriftKind.DEFINITION, vm_remedies.definition),
        (DriftKind.DEVICE_MISSING, vm_remedies.device),
        (DriftKind.DEVICE_DRIVER, vm_remedies.device),
        (DriftKind.INSTANCE_MISSING, vm_remedies.device),
        (DriftKind.PARTITION_INACTIVE, vm_remedies.partition),
        (DriftKind.CLAIM_MISSING, vm_remedies.claim),
    )
}
_OTHERS: dict[DriftKind, Callable[[DriftCase], Remedy]] = {
    DriftKind.UNFINISHED: _unfinished,
    DriftKind.DOMAIN_ELSEWHERE: domain_elsewhere,
    DriftKind.DOMAIN_LEFTOVER: domain_leftover,
    DriftKind.CLAIM_LEFTOVER: claim_leftover,
    DriftKind.LAYOUT: _layout,
    DriftKind.GPU_LOST: _gpu_lost,
    DriftKind.FOREIGN: _foreign,
}
# Nothing that we may do ends these: the difference itself says what does.
_ALWAYS: dict[DriftKind, str] = {
    DriftKind.GPU_QUARANTINED: "only you can confirm that it is repaired",
    DriftKind.DOMAIN_NOT_OURS: "a foreign domain is never touched",
    DriftKind.ATTACHED: "a running guest's devices are never changed",
    DriftKind.DEVICE_DIFFERS: "what is in its place is foreign",
    DriftKind.DEVICE_TAKEN: "a foreign domain is never touched",
    DriftKind.CLAIM_DIFFERS: "a foreign claim is never touched",
    DriftKind.VOLUME_MISSING: "lost data cannot be recreated",
    DriftKind.POOL_MISSING: "storage pools belong to the host's administrator",
    DriftKind.POOL_INACTIVE: "storage pools belong to the host's administrator",
    DriftKind.GPU_MISSING: "somebody must inspect the host",
    DriftKind.GPU_EVIDENCE: "somebody must inspect the host",
    DriftKind.REINSTALLED: "you must decide what becomes of its VMs",
    DriftKind.HELPER: "upgrades are started by you alone",
}
