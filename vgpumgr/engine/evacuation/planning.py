"""The VMs of a lost host, and the hosts that are left → where each is recreated. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from vgpumgr.engine.creation import autostarts
from vgpumgr.engine.evacuation.disks import Seen, own_disk, reaches
from vgpumgr.engine.evacuation.plan import EvacuationPlan, Remade, Stays
from vgpumgr.engine.outlook import Place
from vgpumgr.engine.planning.places import decide
from vgpumgr.engine.planning.refusal import no_placement
from vgpumgr.engine.view import LedgerView
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import NotPlaced
from vgpumgr.model.vm import VmRecord, VmSpec, VmState


def make_plan(
    view: LedgerView,
    lost: HostRecord,
    seen: Seen,
    place: Place,
    *,
    will_not_boot: bool,
) -> EvacuationPlan:
    """``seen`` are the volumes that each host sees. ``will_not_boot``: somebody gives their word
    that the machine does not boot by itself, where libvirt on it would start VMs.
    """
    staying: list[Stays] = []
    wanted: list[tuple[VmRecord, VmSpec]] = []
    for vm in on_host(view.vms, lost.name):
        kept = _kept(vm, lost, will_not_boot=will_not_boot)
        hosts = [] if kept else [host.name for host in _targets(view, vm, lost, seen)]
        if kept or not hosts:
            staying.append(kept or _unseen(vm, lost))
        else:
            wanted.append((vm, _among(vm.spec, hosts)))
    remade, misfits = _place(view, lost, wanted, place)
    return EvacuationPlan(lost=lost, remade=tuple(remade), staying=(*staying, *misfits))


def on_host(vms: Sequence[VmRecord], host: str) -> Iterator[VmRecord]:
    """The VMs that lie there, or are going there."""
    for vm in vms:
        if vm.host == host or (vm.moving_to is not None and vm.moving_to.host == host):
            yield vm


def _kept(vm: VmRecord, lost: HostRecord, *, will_not_boot: bool) -> Stays | None:
    if vm.state is VmState.SHELVED:
        return Stays(vm, "it is shelved: it has nothing but its disks there", _bring_back(lost))
    if vm.state is not VmState.ACTIVE:
        why = f"it is {vm.state}: an operation on it is not finished"
        return Stays(vm, why, "vgpumgr operation list --open")
    if vm.definition:
        why = "it was adopted: only its own definition says what it needs there"
        return Stays(vm, why, _bring_back(lost))
    if starts_by_itself(vm, lost) and not will_not_boot:
        return Stays(
            vm,
            f"libvirt there starts it again when {lost.name} boots: it would run twice",
            f"vgpumgr host evacuate {lost.name} --confirm-off   "
            f"(if {lost.name} certainly does not boot by itself)",
        )
    own = own_disk(vm, lost.facts)
    return Stays(vm, own, _bring_back(lost)) if own else None


def starts_by_itself(vm: VmRecord, host: HostRecord) -> bool:
    """Does libvirt start it with its host, by the last observation or by what we have set?"""
    domains = host.facts.domains if host.facts else ()
    flagged = any(domain.name == vm.name and domain.autostart for domain in domains)
    return flagged or autostarts(vm.spec, host)


def _targets(view: LedgerView, vm: VmRecord, lost: HostRecord, seen: Seen) -> Iterator[HostRecord]:
    for host in view.hosts:
        if host.name != lost.name and reaches(vm, lost.facts, host, seen):
            yield host


def _unseen(vm: VmRecord, lost: HostRecord) -> Stays:
    return Stays(vm, "no other host sees all of its disks", _bring_back(lost), crowded=True)


def _bring_back(lost: HostRecord) -> str:
    return f"switch {lost.name} on, then vgpumgr host maintenance {lost.name} --off"


def _among(spec: VmSpec, hosts: Collection[str]) -> VmSpec:
    """The request on these hosts alone, and on none that it does not want."""
    own = spec.affinity.hosts
    both = tuple(name for name in hosts if not own or name in own)
    return replace(spec, affinity=replace(spec.affinity, hosts=both or own))


def _place(
    view: LedgerView,
    lost: HostRecord,
    wanted: Sequence[tuple[VmRecord, VmSpec]],
    place: Place,
) -> tuple[list[Remade], list[Stays]]:
    """As if these VMs were nowhere yet, and the lost host were closed."""
    moving = {vm.id for vm, _ in wanted}
    others = replace(
        view,
        vms=tuple(vm for vm in view.vms if vm.id not in moving),
        hosts=tuple(replace(h, cordoned=True) if h.name == lost.name else h for h in view.hosts),
    )
    decisions = decide(others, [spec for _, spec in wanted], place)
    remade: list[Remade] = []
    staying: list[Stays] = []
    for (vm, _), decision in zip(wanted, decisions, strict=True):
        if isinstance(decision, NotPlaced):
            error = no_placement([decision])
            again = f"free capacity, then vgpumgr host evacuate {lost.name}"
            staying.append(Stays(vm, f"it fits nowhere: {error.why}", again, crowded=True))
        else:
            remade.append(Remade(vm, decision))
    return remade, staying
