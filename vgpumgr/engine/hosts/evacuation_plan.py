"""The plan of an evacuation: the new host of each VM of a lost host, or the reason why it has
none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vgpumgr.engine.desktops.user_sessions import UserAtWork
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.decisions import decide
from vgpumgr.engine.planning.vm_admission import no_placement
from vgpumgr.engine.reservation.autostart import autostarts
from vgpumgr.engine.reservation.vm_volumes import attached
from vgpumgr.engine.storage.shared_storage import SHARED_KINDS, may_be_shared, shared_pools
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord, StoragePool
from vgpumgr.model.placement import NotPlaced, Placed
from vgpumgr.model.ports import Host
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

# By host: the volumes, as (pool, name), that it sees.
VolumesByHost = Mapping[str, Collection[tuple[str, str]]]


def look(
    context: EngineContext, hosts: Iterable[HostRecord], vms: Collection[VmRecord]
) -> VolumesByHost:
    """The volumes of these VMs that each host sees in its shared pools; none where it cannot say.

    A volume's name carries its VM's id: what has it and lies in a shared pool is that volume.
    """
    volumes = [volume for vm in vms for volume in vm.every_volume]
    answers = context.lanes.run(
        {
            record.name: partial(_seen, context.hosts.open(record), record.facts, volumes)
            for record in hosts
            if record.facts is not None
        }
    )
    return {name: () if isinstance(found, Exception) else found for name, found in answers.items()}


def _seen(
    host: Host, facts: HostFacts, volumes: Collection[tuple[str, str]]
) -> frozenset[tuple[str, str]]:
    shared = may_be_shared(facts, {pool for pool, _ in volumes})
    found = set()
    for pool, name in volumes:
        try:
            if pool in shared and host.storage.look(pool, name) is not None:
                found.add((pool, name))
        except VgpumgrError:
            break  # not seen is not there: such a host is no target
    return frozenset(found)


def local_data(vm: VmRecord, lost: HostFacts | None) -> str:
    """Why its data is on the lost host alone; empty where all of it lies on shared storage."""
    if vm.spec.tpm:
        return "the state of its TPM is on the host's own disk"
    for each in attached(vm):
        pool = _pool(lost, each.pool)
        if pool is None:
            return f"nothing is known of {each.pool}, the storage pool of {each.name}"
        if pool.kind not in SHARED_KINDS:
            return f"{each.pool}/{each.name} is on the host's own disks (a {pool.kind} pool)"
    return ""


def reaches(vm: VmRecord, lost: HostFacts | None, target: HostRecord, seen: VolumesByHost) -> bool:
    """Does the target see every volume of it, in pools that are the same storage, and its images
    under the same path?
    """
    there, shared = seen.get(target.name, ()), shared_pools(lost, target.facts)
    if any(volume not in there or volume[0] not in shared for volume in vm.every_volume):
        return False
    return all(
        _path(lost, disk.pool) == _path(target.facts, disk.pool)
        for disk in vm.spec.disks
        if disk.is_overlay or vm.snapshots
    )


def _path(facts: HostFacts | None, name: str) -> str:
    pool = _pool(facts, name)
    return pool.path if pool else ""


def _pool(facts: HostFacts | None, name: str) -> StoragePool | None:
    pools = facts.pools if facts else ()
    return next((pool for pool in pools if pool.name == name), None)


@dataclass(frozen=True, slots=True)
class RecreatedVm:
    """A VM that is recreated, and where."""

    vm: VmRecord
    placed: Placed


@dataclass(frozen=True, slots=True)
class StayingVm:
    """A VM that stays where it is: ``why``, and the command to use. ``crowded``: no other host
    takes it; ``pool``: it is a desktop of that pool, and its user gets another.
    """

    vm: VmRecord
    why: str
    next: str
    crowded: bool = False
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuationPlan:
    """All VMs of the host that was lost; ``users`` had a session on one of them."""

    lost: HostRecord
    remade: tuple[RecreatedVm, ...] = ()
    staying: tuple[StayingVm, ...] = ()
    users: tuple[UserAtWork, ...] = ()

    @property
    def crowded(self) -> bool:
        """Could one more host take a VM that stays?"""
        return any(each.crowded for each in self.staying)


def make_plan(
    view: LedgerView,
    lost: HostRecord,
    seen: VolumesByHost,
    place: PlaceFunction,
    *,
    will_not_boot: bool,
) -> EvacuationPlan:
    """The plan of an evacuation. ``seen`` are the volumes that each host sees. ``will_not_boot``:
    the operator vouches that the machine does not boot by itself, where libvirt would start its
    VMs.
    """
    staying: list[StayingVm] = []
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


def _kept(vm: VmRecord, lost: HostRecord, *, will_not_boot: bool) -> StayingVm | None:
    if vm.state is VmState.SHELVED:
        return StayingVm(vm, "it is shelved: it has nothing but its disks there", _bring_back(lost))
    if vm.state is not VmState.ACTIVE:
        why = f"it is {vm.state}: an operation on it is not finished"
        return StayingVm(vm, why, "vgpumgr operation list --open")
    if vm.definition:
        why = "it was adopted: only its own definition says what it needs there"
        return StayingVm(vm, why, _bring_back(lost))
    if starts_by_itself(vm, lost) and not will_not_boot:
        return StayingVm(
            vm,
            f"libvirt there starts it again when {lost.name} boots: it would run twice",
            f"vgpumgr host evacuate {lost.name} --confirm-off   "
            f"(if {lost.name} certainly does not boot by itself)",
        )
    own = local_data(vm, lost.facts)
    return StayingVm(vm, own, _bring_back(lost)) if own else None


def starts_by_itself(vm: VmRecord, host: HostRecord) -> bool:
    """Does libvirt start it with its host, by the last observation or by what we have set?"""
    domains = host.facts.domains if host.facts else ()
    flagged = any(domain.name == vm.name and domain.autostart for domain in domains)
    return flagged or autostarts(vm.spec, host)


def _targets(
    view: LedgerView, vm: VmRecord, lost: HostRecord, seen: VolumesByHost
) -> Iterator[HostRecord]:
    for host in view.hosts:
        if host.name != lost.name and reaches(vm, lost.facts, host, seen):
            yield host


def _unseen(vm: VmRecord, lost: HostRecord) -> StayingVm:
    return StayingVm(vm, "no other host sees all of its disks", _bring_back(lost), crowded=True)


def _bring_back(lost: HostRecord) -> str:
    return f"switch {lost.name} on, then vgpumgr host maintenance {lost.name} --off"


def _among(spec: VmSpec, hosts: Collection[str]) -> VmSpec:
    """The request on these hosts alone, and on none that it does not want. Its disks are there."""
    own = spec.affinity.hosts
    both = tuple(name for name in hosts if not own or name in own)
    disks = tuple(replace(disk, size_bytes=0) for disk in spec.disks)
    return replace(spec, affinity=replace(spec.affinity, hosts=both or own), disks=disks)


def _place(
    view: LedgerView,
    lost: HostRecord,
    wanted: Sequence[tuple[VmRecord, VmSpec]],
    place: PlaceFunction,
) -> tuple[list[RecreatedVm], list[StayingVm]]:
    """Decisions for these VMs as if they held nothing yet, and the lost host were closed."""
    moving = {vm.id for vm, _ in wanted}
    others = replace(
        view,
        vms=tuple(vm for vm in view.vms if vm.id not in moving),
        hosts=tuple(replace(h, cordoned=True) if h.name == lost.name else h for h in view.hosts),
    )
    decisions = decide(others, [spec for _, spec in wanted], place)
    remade: list[RecreatedVm] = []
    staying: list[StayingVm] = []
    for (vm, _), decision in zip(wanted, decisions, strict=True):
        if isinstance(decision, NotPlaced):
            error = no_placement([decision])
            again = f"free capacity, then vgpumgr host evacuate {lost.name}"
            staying.append(StayingVm(vm, f"it fits nowhere: {error.why}", again, crowded=True))
        else:
            remade.append(RecreatedVm(vm, decision))
    return remade, staying
