"""VMs and allocations rebuilt from domains and claims that carry the fleet's mark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from vgpumgr import domainxml, guests
from vgpumgr import gpu as frameworks
from vgpumgr.domainxml import Described
from vgpumgr.domainxml.foreign_domains import X86_HUGEPAGE_KIB
from vgpumgr.engine.adoption.candidate import FoundPart
from vgpumgr.engine.adoption.foreign_parts import slots_of
from vgpumgr.engine.inventory.rollback_detection import domains_of, ledger_is_behind
from vgpumgr.engine.ledger_recovery.rebuilt_snapshots import files_below, rebuilt_tree
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.engine.reservation.domain_plan import FIRST_DISK_BOOTS, spec_of
from vgpumgr.engine.reservation.nic_functions import mac_address, sriov_nics, with_vfs
from vgpumgr.model.allocation import Allocation, AllocationState, InstancePart
from vgpumgr.model.domain import PASSED_CPU, DomainDisk, DomainFacts, DomainState, VolumeFacts
from vgpumgr.model.errors import NotFound
from vgpumgr.model.gpu import Framework, GpuRecord, VfFacts
from vgpumgr.model.host import ClaimFacts, HostFacts
from vgpumgr.model.ledger_state import Remembered
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.ports import Host
from vgpumgr.model.snapshot import SnapshotTree
from vgpumgr.model.supply import Offer
from vgpumgr.model.vm import ChangeReach, GpuRequest, VmRecord, VmSpec, VmState, change_reach
from vgpumgr.model.vm_devices import CdSpec, CloudInit, DiskMode, DiskSpec

_QCOW2 = "qcow2"


class DomainNotRead(Exception):
    """Why a domain cannot be described."""


@dataclass(frozen=True, slots=True)
class RebuiltDisk:
    """A disk, the pool and name of the file behind it, and the volume that this is, if any.
    ``below`` are the names of the VM's own files that it is laid over, the upper ones first;
    ``base`` is the path of what the lowest of these is laid over, empty for nothing.
    """

    disk: DomainDisk
    pool: str
    name: str
    volume: VolumeFacts | None
    below: tuple[str, ...] = ()
    base: str = ""


@dataclass(frozen=True, slots=True)
class RebuiltDomain:
    """A domain's definition, with its disks; ``vfs`` are those of its host's NICs by address, as
    far as the host knows what was asked of them.
    """

    xml: str
    disks: tuple[RebuiltDisk, ...]
    vfs: Mapping[str, SriovNic] = field(default_factory=dict)

    @property
    def functions(self) -> tuple[str, ...]:
        """The VFs that it has as NICs."""
        return tuple(each.function for each in domainxml.described(self.xml).vfs.values())


def new_vm(domain: DomainFacts, found: RebuiltDomain, host: str, now: float) -> VmRecord:
    """A VM that the ledger never had, as its domain shows it; its GPUs follow from its claims.

    What only its file said (copied images, tenant, labels, policy) is not on the host. A domain of
    another hand that was adopted keeps the definition that it has.
    """
    mark = domain.ownership
    assert mark is not None
    spec, cpus, node = _described(domain, found)
    record = VmRecord(
        id=mark.vm_id,
        spec=spec,
        host=host,
        state=VmState.ACTIVE,
        running=domain.state is not DomainState.SHUTOFF,
        generation=mark.generation,
        numa_node=node,
        cpus=cpus,
        created_at=now,
        nic_functions=found.functions,
    )
    if not _is_made(domain):
        return replace(record, definition=domainxml.without_mark(found.xml))
    return _with_volumes(record, found.disks, now)


# What a change in place writes into a domain; and huge pages, which have a default on each host.
_SHOWN = (
    *(
        each.name
        for each in fields(VmSpec)
        if change_reach(each.name) in {ChangeReach.DEFINITION, ChangeReach.FLAG}
    ),
    "hugepage_kib",
)


def changed_vm(
    old: VmRecord, domain: DomainFacts, found: RebuiltDomain, host: str, now: float
) -> VmRecord:
    """A VM that was changed or moved meanwhile: what its domain shows, on top of what is known.

    So do the files of its disks: those of before a snapshot, written to, would ruin it.
    """
    mark, xml = domain.ownership, found.xml
    assert mark is not None
    old = _with_other_volumes(old, found.disks, now)
    spec, cpus, node = _described(domain, found, old.spec)
    shown: dict[str, Any] = {name: getattr(spec, name) for name in _SHOWN}
    shown["nics"] = spec.nics or old.spec.nics
    shown["cds"] = () if old.definition else _cds(found.disks, old)
    return replace(
        old,
        spec=replace(old.spec, **shown),
        host=host,
        generation=mark.generation,
        numa_node=old.numa_node if node is None and host == old.host else node,
        cpus=cpus,
        nic_functions=found.functions,
        moving_to=None,
        definition=domainxml.without_mark(xml) if old.definition else "",
    )


def _with_other_volumes(old: VmRecord, disks: Sequence[RebuiltDisk], now: float) -> VmRecord:
    own = tuple(each for each in disks if not _is_image(each, old))
    volumes = tuple((each.pool, each.name) for each in own)
    if old.definition or volumes == old.volumes or len(volumes) != len(old.volumes):
        return old
    tree = _tree(own, old.snapshots, now)
    return replace(_with_volumes(old, disks, now), spec=old.spec, snapshots=tree)


def _tree(disks: Iterable[RebuiltDisk], known: SnapshotTree, now: float) -> SnapshotTree:
    made = [each for each in disks if not each.disk.cdrom]
    return rebuilt_tree([each.pool for each in made], [each.below for each in made], known, now)


def with_gpus(record: VmRecord, held: Iterable[Allocation]) -> VmRecord:
    """The record with the GPU parts that it holds as its request."""
    counted = Counter(each.profile for each in held)
    gpus = tuple(GpuRequest(profile=name, count=count) for name, count in counted.items())
    return replace(record, spec=replace(record.spec, gpus=gpus))


def vm_of_stray_claims(name: str, vm_id: str, host: str, now: float) -> VmRecord:
    """A VM for claims without a domain: nothing but a name under which they can be deleted."""
    spec = VmSpec(name=name, vcpus=1, memory_mib=1)
    return VmRecord(
        id=vm_id,
        spec=spec,
        host=host,
        state=VmState.ACTIVE,
        running=False,
        generation=1,
        created_at=now,
    )


def _described(
    domain: DomainFacts, found: RebuiltDomain, old: VmSpec | None = None
) -> tuple[VmSpec, tuple[int, ...], int | None]:
    """Spec, pinned CPUs and node; what a domain may leave open is as in the ``old`` spec."""
    try:
        described = domainxml.described(found.xml)
    except ValueError as error:
        raise DomainNotRead(str(error)) from error
    spec = spec_of(described, old.hugepage_kib if old else X86_HUGEPAGE_KIB)
    if not isinstance(spec, VmSpec):
        raise DomainNotRead("; ".join(spec))
    # An adopted VM's console and the like are in the definition that it keeps, as its disks are.
    made = _is_made(domain)
    console = made and described.console and not spec.display
    devices: dict[str, Any] = dict.fromkeys(described.optional_devices, made)
    if made and domain.ownership is not None:
        devices |= _tuned(described, domain.ownership.vm_id, found.vfs)
        devices["uuid"] = domain.ownership.uuid
        devices["cpu_model"] = described.cpu_model or (old.cpu_model if old else PASSED_CPU)
    screen = (described.screen if made else None) or (old.screen if old and spec.display else None)
    spec = replace(spec, autostart=domain.autostart, console=console, screen=screen, **devices)
    node = described.preferred_node if described.numa_node is None else described.numa_node
    return spec, described.pins, node


def _is_made(domain: DomainFacts) -> bool:
    """Whether the domain is of the fleet's own making: one that was adopted has an id of its own,
    and so has a VM that came with one, which its mark says.
    """
    mark = domain.ownership
    return mark is not None and domain.uuid == (mark.uuid or mark.vm_id)


def _tuned(described: Described, vm_id: str, vfs: Mapping[str, SriovNic]) -> dict[str, Any]:
    """Fields of VmSpec on the machine and its NICs that a domain of our own making shows."""
    known = [nic for nic in with_vfs(described, vfs) if nic is not None]
    nics = [
        replace(nic, mac="" if nic.mac == mac_address(vm_id, number) else nic.mac)
        for number, nic in enumerate(known)
    ]
    return {
        "nics": tuple(nics) if len(known) == len(described.nics) else (),
        "secure_boot": described.secure_boot,
        "cpu_shares": described.cpu_shares,
        "os": guests.system_of_id(described.system),
    }


def _with_volumes(record: VmRecord, disks: Iterable[RebuiltDisk], now: float) -> VmRecord:
    """The volumes that were made for it: their names carry its id; and its snapshots below them."""
    drives = tuple(disks)
    cds = _cds(drives, record)
    disks = tuple(each for each in drives if not _is_image(each, record))
    for each in disks:
        if not (each.pool and each.name.startswith(f"{record.name}-{record.id[:8]}-")):
            where = each.disk.path or each.disk.target
            raise DomainNotRead(f"its disk {where} was not created by vgpumgr")
    seed = next((CloudInit(pool=each.pool) for each in disks if each.disk.cdrom), None)
    made = tuple(_disk(each) for each in disks if not each.disk.cdrom)
    spec = replace(record.spec, disks=made, cloud_init=seed, cds=cds)
    volumes = tuple((each.pool, each.name) for each in disks)
    tree = _tree(disks, record.snapshots, now)
    return replace(record, spec=spec, volumes=volumes, snapshots=tree)


def _is_image(drive: RebuiltDisk, record: VmRecord) -> bool:
    """Is it a CD of the user's, and no cloud-init seed that was made for the VM?"""
    made = drive.name.startswith(f"{record.name}-{record.id[:8]}-")
    return drive.disk.cdrom and drive.pool != "" and not made


def _cds(drives: Iterable[RebuiltDisk], record: VmRecord) -> tuple[CdSpec, ...]:
    return tuple(
        CdSpec(
            image=each.name,
            pool=each.pool,
            boot=0 < each.disk.boot_order < FIRST_DISK_BOOTS,
        )
        for each in drives
        if _is_image(each, record)
    )


def _disk(made: RebuiltDisk) -> DiskSpec:
    size = made.volume.capacity_bytes if made.volume else 0
    plain = DiskSpec(
        pool=made.pool, size_bytes=size, format=made.disk.format, tuning=made.disk.tuning
    )
    base = made.volume.backing_path if made.volume and not made.below else made.base
    if not base:
        return plain
    return replace(plain, mode=DiskMode.OVERLAY, image=PurePosixPath(base).name)


def read(
    context: EngineContext, seen: Mapping[str, HostFacts], known: Remembered
) -> dict[tuple[str, str], RebuiltDomain]:
    """Definitions and volumes by host and domain; what could not be read is not among them."""
    wanted = {host: tuple(_unknown(facts, known)) for host, facts in seen.items()}
    answers = context.lanes.run(
        {
            host: partial(_read, context.host(host), seen[host], domains)
            for host, domains in wanted.items()
            if domains
        }
    )
    return {
        (host, name): found
        for host, each in answers.items()
        if not isinstance(each, Exception)
        for name, found in each.items()
    }


def _unknown(facts: HostFacts, known: Remembered) -> Iterator[DomainFacts]:
    for domain in domains_of(facts, known.fleet):
        mark = domain.ownership
        if (
            mark
            and domain.persistent
            and ledger_is_behind(known.vms.get(mark.vm_id), mark.generation)
        ):
            yield domain


def _read(host: Host, facts: HostFacts, domains: Iterable[DomainFacts]) -> dict[str, RebuiltDomain]:
    found = {}
    for domain in domains:
        try:
            xml = host.domains.xml(domain.name)
            found[domain.name] = RebuiltDomain(
                xml, tuple(_disks(host, facts, xml)), sriov_nics(facts)
            )
        except (NotFound, ValueError):
            continue
    return found


def _disks(host: Host, facts: HostFacts, xml: str) -> Iterator[RebuiltDisk]:
    """Each with the pool that it lies in, where there is one, and its volume."""
    pools = {pool.path.rstrip("/"): pool.name for pool in facts.pools if pool.active}
    for disk in domainxml.disks(xml):
        path = PurePosixPath(disk.path)
        pool = pools.get(str(path.parent), "")
        volume = host.storage.look(pool, path.name) if pool else None
        looked = volume is not None and disk.format == _QCOW2
        below, base = files_below(host, disk.path) if looked else ((), "")
        yield RebuiltDisk(disk, pool, path.name, volume, below, base)


class ClaimNotTaken(Exception):
    """Why a claim cannot become an allocation."""


@dataclass(frozen=True, slots=True)
class HostAllocations:
    """The GPUs of a host, what the ledger holds on them, and the time (Unix seconds)."""

    gpus: Sequence[GpuRecord]
    held: Sequence[Allocation]
    now: float


def rebuilt_allocation(
    claim: ClaimFacts, owner: VmRecord, ground: HostAllocations, partition: int | None
) -> Allocation:
    """The allocation as its claim describes it, on free units; ClaimNotTaken without any."""
    gpu, part = _part(claim, ground.gpus)
    holder = next((each for each in ground.held if each.device == part.device), None)
    if holder is not None:
        raise ClaimNotTaken(f"the ledger has {part.device} as {holder.vm}'s: {_deleted(holder.vm)}")
    slots = slots_of(part, gpu, ground.held, ())
    if not slots:
        names = _holders(gpu, ground.held)
        raise ClaimNotTaken(f"the ledger has its units as those of {names}: {_deleted('NAME')}")
    limiter = _mapping(claim.wanted, "params").get("frame_rate_limiter")
    offer = part.offer
    return Allocation(
        id=claim.allocation,
        vm_id=owner.id,
        vm=owner.name,
        host=gpu.host,
        gpu=gpu.id,
        profile=offer.profile,
        framework=offer.framework,
        device=part.device,
        slots=slots,
        type_id=offer.type_id,
        parent=part.parent,
        companions=part.companions,
        vf=part.vf,
        instance=part.instance,
        placement_id=part.placement_id,
        frame_rate_limiter=None if limiter is None else bool(limiter),
        partition=partition if offer.framework is Framework.PASSTHROUGH else None,
        state=AllocationState.ACTIVE,
        generation=claim.generation,
        created_at=ground.now,
    )


def _deleted(name: str) -> str:
    return f"if it was deleted, add --forget {name}"


def _holders(gpu: GpuRecord, held: Iterable[Allocation]) -> str:
    names = sorted({each.vm for each in held if each.gpu == gpu.id})
    return ", ".join(names) or "nobody"


def _part(claim: ClaimFacts, gpus: Sequence[GpuRecord]) -> tuple[GpuRecord, FoundPart]:
    wanted = claim.wanted
    match wanted.get("kind"):
        case "mdev":
            parent = str(wanted.get("parent", ""))
            gpu, vf = _at(parent, gpus)
            offer = _offer(gpu, str(wanted.get("type", "")), Framework.MDEV)
            part = FoundPart(
                gpu=gpu.id, device=str(wanted.get("uuid", "")), offer=offer, slots=(), parent=parent
            )
        case "vgpu":
            gpu, vf = _at(str(wanted.get("vf", "")), gpus)
            offer = _offer(gpu, str(wanted.get("type", "")), Framework.VFIO_VF)
            part = FoundPart(gpu=gpu.id, device=str(wanted.get("vf", "")), offer=offer, slots=())
        case "vfio":
            gpu, vf = _at(str(wanted.get("address", "")), gpus)
            part = _bound(wanted, gpu, vf)
        case other:
            raise ClaimNotTaken(f"a claim of kind {other} is unknown")
    return gpu, replace(part, vf=vf.number if vf else None, **_where(wanted, part.offer))


def _bound(wanted: Mapping[str, object], gpu: GpuRecord, vf: VfFacts | None) -> FoundPart:
    framework = Framework.PCI_VF if vf else Framework.PASSTHROUGH
    offer = next((o for o in frameworks.offers(gpu.facts) if o.framework is framework), None)
    if offer is None:
        raise ClaimNotTaken(f"{gpu.facts.device} has no known profile")
    others = wanted.get("with")
    names = [str(each.get("address", "")) for each in others] if isinstance(others, list) else []
    device = str(wanted.get("address", ""))
    return FoundPart(gpu=gpu.id, device=device, offer=offer, slots=(), companions=tuple(names))


def _at(address: str, gpus: Sequence[GpuRecord]) -> tuple[GpuRecord, VfFacts | None]:
    for gpu in gpus:
        vf = next((each for each in gpu.facts.vfs if each.address == address), None)
        if vf is not None or gpu.facts.device == address:
            return gpu, vf
    raise ClaimNotTaken(f"{address} is on no GPU that the host shows now")


def _offer(gpu: GpuRecord, type_id: str, framework: Framework) -> Offer:
    for offer in frameworks.offers(gpu.facts):
        if (offer.type_id, offer.framework) == (type_id, framework):
            return offer
    raise ClaimNotTaken(f"type {type_id} on {gpu.facts.device} has no known profile")


def _where(wanted: Mapping[str, object], offer: Offer) -> dict[str, Any]:
    """The place it was given: its GPU instance, or its placement id."""
    inside = _mapping(wanted, "instance")
    if inside and offer.instance is not None:
        return {
            "instance": InstancePart(
                gpu=inside["gpu"],
                profile=offer.instance.profile,
                profile_id=inside["profile_id"],
                start=inside["start"],
                size=inside["size"],
                make=bool(inside.get("make", True)),
            )
        }
    return {"placement_id": wanted.get("placement_id")}


def _mapping(wanted: Mapping[str, object], key: str) -> Mapping[str, Any]:
    found = wanted.get(key)
    return found if isinstance(found, dict) else {}
