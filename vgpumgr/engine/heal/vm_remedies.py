"""Remedies that bring a VM back to its record: definition, mark, devices, claims and power."""

from __future__ import annotations

from vgpumgr.engine.heal.remedy import DriftCase, Remedy, RemedyWay, needs_you
from vgpumgr.engine.reservation.domain_plan import ownership
from vgpumgr.engine.reservation.nic_functions import take_nics
from vgpumgr.engine.reservation.vm_creation import device_steps
from vgpumgr.engine.reservation.vm_reservations import require_partitioned
from vgpumgr.engine.steps.adoption_steps import AdoptDevice, MarkDomain
from vgpumgr.engine.steps.device_steps import RealiseDevice
from vgpumgr.engine.steps.domain_steps import DefineDomain, RedefineDomain, StartDomain, StopDomain
from vgpumgr.engine.steps.repair_steps import KeepDomain
from vgpumgr.engine.steps.step import Step
from vgpumgr.model.domain import OFF, DomainState
from vgpumgr.model.drift import DriftKind
from vgpumgr.model.errors import Conflict
from vgpumgr.model.formats import pci_claim
from vgpumgr.model.gpu import Framework

# With one of these a VM is not touched: whatever we did might make it worse.
BLOCKING = frozenset(
    {
        DriftKind.UNFINISHED,
        DriftKind.DOMAIN_NOT_OURS,
        DriftKind.DOMAIN_ELSEWHERE,
        DriftKind.DEVICE_DIFFERS,
        DriftKind.DEVICE_TAKEN,
        DriftKind.CLAIM_DIFFERS,
        DriftKind.VOLUME_MISSING,
        DriftKind.POOL_MISSING,
        DriftKind.POOL_INACTIVE,
    }
)


# Of a GPU, these end with its layout put right. A change of it that was cut hides that it differs.
_LAID_OUT = frozenset({DriftKind.LAYOUT, DriftKind.UNFINISHED})


def _do(case: DriftCase, text: str, *steps: Step) -> Remedy:
    return Remedy(drift=case.drift, way=RemedyWay.VM, text=text, steps=steps, whose=case.whose)


def domain_missing(case: DriftCase) -> Remedy:
    """Defined anew, its devices first, and started if it is to run."""
    if case.drift.found != "missing":
        return needs_you(case.drift, "it was renamed: only you know which name is right")
    wanted = sum(each.count for each in case.vm.spec.gpus)
    if len(case.held) < wanted:
        again = f"vgpumgr vm delete {case.vm.name}, then apply its file again"
        return needs_you(case.drift, "its GPU parts were released: it must be recreated", again)
    if refused := _not_partitioned(case):
        return refused
    start = case.vm.running
    words = ", recreate its devices and start it" if start else ""
    return _do(case, f"define it again{words}", *(_devices(case) if start else ()), _define(case),
               *((_start(case),) if start else ()))  # fmt: skip


def domain_transient(case: DriftCase) -> Remedy:
    """A definition for what runs."""
    step = KeepDomain(
        name=case.vm.name,
        vm_id=case.vm.id,
        xml=case.known.sites.definition(case.vm),
        autostart=_autostart(case),
    )
    return _do(case, "define it again while it runs", step)


def mark(case: DriftCase) -> Remedy:
    """The mark as the ledger has it, in the definition and in what runs."""
    wanted = ownership(case.vm, case.held, case.known.view.fleet)
    return _do(case, "put the mark back", MarkDomain(name=case.vm.name, uuid="", mark=wanted))


def definition(case: DriftCase) -> Remedy:
    """Defined over, as the ledger has it; a running guest takes it at its next start."""
    xml = case.known.sites.definition(case.vm)
    later = ", which it takes at its next start" if case.runs else ""
    step = RedefineDomain(
        name=case.vm.name, vm_id=case.vm.id, xml=xml, old_xml=xml, autostart=_autostart(case)
    )
    return _do(case, f"put the definition back{later}", step)


def power(case: DriftCase) -> Remedy:
    """Power as last requested. A guest that is paused, or neither running nor off, is left to a
    person.
    """
    found = case.domain(case.vm.name)
    state = found.state if found else DomainState.SHUTOFF
    if not case.vm.running and state is DomainState.RUNNING:
        return _do(case, "ask it to power off", StopDomain(name=case.vm.name, vm_id=case.vm.id))
    if not case.vm.running or state not in OFF:
        return needs_you(case.drift, f"it is {state}: find out why before it is resumed")
    return (
        _ended(case, state)
        or _not_partitioned(case)
        or _do(case, "recreate its devices and start it", *_devices(case), _start(case))
    )


def device(case: DriftCase) -> Remedy:
    """A device that is gone, or on another driver, is made again while nothing uses it."""
    if _is_nic(case):
        return needs_you(case.drift, "the VFs of a NIC are turned on by its host's own set-up")
    held = case.allocation
    if held is None or case.runs:
        return needs_you(case.drift, "the VM runs: stop it first")
    on_vfio = held.framework in {Framework.PASSTHROUGH, Framework.PCI_VF}
    if case.drift.kind is DriftKind.DEVICE_DRIVER and not on_vfio:
        return needs_you(case.drift, "its driver is not managed by vgpumgr")
    return _not_partitioned(case) or _do(
        case, "recreate it as it was", RealiseDevice(allocation=held)
    )


def partition(case: DriftCase) -> Remedy:
    """An NVSwitch partition is activated before a guest starts."""
    if case.runs:
        return needs_you(case.drift, "the VM runs: stop it first")
    return _do(case, "activate it again, after its GPUs", *_devices(case))


def claim(case: DriftCase) -> Remedy:
    """A claim that was lost is written again for what the VM's own domain has."""
    if _is_nic(case):
        unit = case.drift.subject
        steps = (each for each in take_nics(case.vm) if unit == pci_claim(each.function.address))
        return _do(case, "claim it again", *steps)
    held = case.allocation
    if held is None:
        return needs_you(case.drift, "the claim of a partition is written when it is activated")
    if case.lost(held):
        return device(case)
    if case.users(held) != (case.vm.name,):
        return needs_you(case.drift, "nothing but the ledger says whose the device is")
    return _do(case, "claim it again, as it is", AdoptDevice(allocation=held))


def _is_nic(case: DriftCase) -> bool:
    """Is it about a VF that is a NIC of the VM?"""
    return case.drift.subject in map(pci_claim, case.vm.nic_functions)


def _ended(case: DriftCase, state: DomainState) -> Remedy | None:
    """Whether a VM of the queue has done its work: its guest has powered off, and no boot stopped
    it.
    """
    booted = case.host.facts is None or case.host.settled_boot != case.host.facts.boot_id
    if case.vm.spec.queue is None or state is not DomainState.SHUTOFF or booted:
        return None
    again = f"vgpumgr serve --once, or to run it once more: vgpumgr vm start {case.vm.name}"
    return needs_you(case.drift, "its guest has powered off: the queue closes it", again)


def _not_partitioned(case: DriftCase) -> Remedy | None:
    """The partitioning that the GPU lacks for the part; a layout that is to be restored comes
    first.
    """
    gpus = {each.gpu for each in case.held}
    if any(each.kind in _LAID_OUT and each.gpu in gpus for each in case.known.drifts):
        return None
    try:
        require_partitioned(case.known.view, [case.vm.name])
    except Conflict as lacking:
        advice = lacking.next.replace("the same command again", "vgpumgr heal")
        return needs_you(case.drift, lacking.why, advice)
    return None


def _devices(case: DriftCase) -> tuple[Step, ...]:
    modules = case.known.sites.site(case.vm.host).modules
    return (*device_steps(case.held, modules), *take_nics(case.vm, case.vm))


def _define(case: DriftCase) -> Step:
    return DefineDomain(
        name=case.vm.name,
        vm_id=case.vm.id,
        xml=case.known.sites.definition(case.vm),
        autostart=_autostart(case),
    )


def _start(case: DriftCase) -> Step:
    return StartDomain(name=case.vm.name, vm_id=case.vm.id)


def _autostart(case: DriftCase) -> bool:
    return case.known.sites.site(case.vm.host).autostarts(case.vm.spec)
