"""Every difference → its remedy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vgpumgr.engine import layouts
from vgpumgr.engine.creation.sites import Sites
from vgpumgr.engine.drift import Seen
from vgpumgr.engine.heal import strays, vms
from vgpumgr.engine.heal.case import Case, Known, Past
from vgpumgr.engine.heal.remedy import Remedy, Way, needs_you
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.drift import DriftKind, DriftReport
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.gpu import GpuState

_UNITS = frozenset({DriftKind.DEVICE_MISSING, DriftKind.CLAIM_MISSING})


def plan(
    report: DriftReport, view: LedgerView, seen: Mapping[str, Seen], past: Past
) -> tuple[Remedy, ...]:
    """A remedy for every difference of a report, in its order.

    What was not read is in no report, and nothing is concluded from it.
    """
    known = Known(view=view, seen=seen, past=past, sites=Sites(view), drifts=report.drifts)
    return tuple(_remedy(Case(drift, known)) for drift in report.drifts)


def _remedy(case: Case) -> Remedy:
    drift = case.drift
    if drift.kind in _ALWAYS:
        return needs_you(drift, _ALWAYS[drift.kind])
    if away := _away(case):
        return needs_you(drift, *away)
    try:
        return _OF_VMS[drift.kind](case) if drift.kind in _OF_VMS else _OTHERS[drift.kind](case)
    except VgpumgrError as refused:
        return needs_you(drift, refused.why or refused.message, refused.next)


def _away(case: Case) -> tuple[str, str] | None:
    """Why nobody acts on a host, and what to type: it is in maintenance, was evacuated, or has
    forgotten all that it held and may be another machine.
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


def _unfinished(case: Case) -> Remedy:
    if case.drift.gpu:
        return _layout(case)
    text = f"resume {case.drift.subject}"
    return Remedy(drift=case.drift, way=Way.RESUME, text=text)


def _layout(case: Case) -> Remedy:
    """As ``layout apply`` would, which refuses while a guest is in the way."""
    for change in layouts.plan(case.known.view, None).gpus:
        if change.gpu == case.drift.gpu and change.refused:
            return needs_you(case.drift, change.refused, change.next)
    return Remedy(drift=case.drift, way=Way.LAYOUT, text="partition it as its layout declares")


def _gpu_lost(case: Case) -> Remedy:
    gpu = next(each for each in case.known.view.gpus if each.id == case.drift.gpu)
    if gpu.state is GpuState.QUARANTINED:
        again = f"reboot {gpu.host}, or replace the board, then vgpumgr heal --lift {gpu.id}"
        return needs_you(case.drift, "it is quarantined", again)
    text = "quarantine it: it takes no VM until it is lifted"
    return Remedy(drift=case.drift, way=Way.QUARANTINE, text=text)


def _foreign(case: Case) -> Remedy:
    return Remedy(
        drift=case.drift,
        way=Way.LEAVE,
        text="it is foreign, and left alone",
        next=f"vgpumgr adopt {case.drift.host}",
    )


def _of_vm(heal: Callable[[Case], Remedy]) -> Callable[[Case], Remedy]:
    """A remedy for a VM, unless something else about it must be settled by a person first."""

    def judged(case: Case) -> Remedy:
        if case.drift.kind in _UNITS and strays.is_orphan(case):
            return strays.release(case)
        first = next((d for d in case.others if d.kind in vms.BLOCKING), None)
        if first is not None:
            return needs_you(case.drift, f"{first.kind} of {first.vm} comes first", first.next)
        return heal(case)

    return judged


_OF_VMS: dict[DriftKind, Callable[[Case], Remedy]] = {
    kind: _of_vm(heal)
    for kind, heal in (
        (DriftKind.DOMAIN_MISSING, vms.domain_missing),
        (DriftKind.DOMAIN_TRANSIENT, vms.domain_transient),
        (DriftKind.MARK, vms.mark),
        (DriftKind.POWER, vms.power),
        (DriftKind.DEFINITION, vms.definition),
        (DriftKind.DEVICE_MISSING, vms.device),
        (DriftKind.DEVICE_DRIVER, vms.device),
        (DriftKind.INSTANCE_MISSING, vms.device),
        (DriftKind.PARTITION_INACTIVE, vms.partition),
        (DriftKind.CLAIM_MISSING, vms.claim),
    )
}
_OTHERS: dict[DriftKind, Callable[[Case], Remedy]] = {
    DriftKind.UNFINISHED: _unfinished,
    DriftKind.DOMAIN_ELSEWHERE: strays.domain_elsewhere,
    DriftKind.DOMAIN_LEFTOVER: strays.domain_leftover,
    DriftKind.CLAIM_LEFTOVER: strays.claim_leftover,
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
