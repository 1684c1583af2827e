"""Domain XML from a VM, its allocations and its NUMA nodes; the kept definition of an adopted
VM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate

from vgpumgr import domainxml, gpu, guests
from vgpumgr.domainxml import Described
from vgpumgr.domainxml.foreign_domains import X86_HUGEPAGE_KIB
from vgpumgr.domainxml.plan_xml import OPTIONAL_DEVICES
from vgpumgr.engine.reservation.nic_functions import mac_address, nic_functions
from vgpumgr.engine.reservation.vm_volumes import VmSite, attached, volume_path
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import (
    NO_SOURCE,
    PLAIN_NIC,
    UNTUNED_DISK,
    DomainDisk,
    DomainNic,
    DomainPlan,
    Hostdev,
    NicTuning,
    NumaSeat,
    NumaShare,
    Ownership,
)
from vgpumgr.model.errors import Conflict
from vgpumgr.model.gpu import Framework
from vgpumgr.model.host import HostFacts, NumaNode
from vgpumgr.model.vm import ChangeReach, NumaPolicy, VmRecord, VmSpec, change_reach
from vgpumgr.model.vm_devices import MOST_CDS, NicSpec

# Of an adopted VM a spec changes these; its definition alone says all else, but for its GPUs.
_ADOPTED_CHANGES = frozenset({"name", "vcpus", "memory_mib", "gpus"})
_DEFINED = frozenset({ChangeReach.DEFINITION, ChangeReach.SEAT, ChangeReach.NEW_VM})
FIXED = tuple(
    each.name
    for each in fields(VmSpec)
    if change_reach(each.name) in _DEFINED and each.name not in _ADOPTED_CHANGES
)


def spec_of(
    domain: Described, default_hugepage_kib: int | None = X86_HUGEPAGE_KIB
) -> VmSpec | tuple[str, ...]:
    """The spec, without GPUs and autostart, or every reason why the domain cannot be adopted, but
    for its name. ``default_hugepage_kib`` is the size of its host's huge pages where it names none.

    Disks are none of it: they are not ours, and stay in the definition as they are. So does a NIC
    that a spec cannot say, and with it all NICs.
    """
    reasons = tuple(_reasons(domain))
    if reasons:
        return reasons
    nics = [_plain(nic) for nic in domain.nics if nic is not None]
    return VmSpec(
        name=domain.name,
        vcpus=domain.vcpus,
        memory_mib=domain.memory_mib,
        nics=tuple(nics) if len(nics) == len(domain.nics) else (),
        firmware=domain.firmware,
        display=any(device.display for device in domain.devices),
        pin_cpus=bool(domain.pins),
        numa=NumaPolicy.PREFER if domain.numa_node is None else NumaPolicy.REQUIRE,
        hugepage_kib=default_hugepage_kib if domain.default_pages else domain.hugepage_kib,
    )


def _plain(nic: NicSpec) -> NicSpec:
    """Its definition keeps the rest, as a file could not say all that others may have given it."""
    return replace(nic, mac="", tuning=PLAIN_NIC)


def _reasons(domain: Described) -> Iterator[str]:
    if domain.kind not in {"kvm", "qemu"}:
        yield f"it is a domain of {domain.kind or 'an unknown kind'}, not of QEMU"
    if domain.arguments:
        yield "it passes its own QEMU arguments, which may use devices that vgpumgr does not see"
    if domain.password:
        yield "its console has a password, which libvirt does not reveal: it would be lost"


def adopted_xml(vm: VmRecord, mark: Ownership, devices: Collection[str]) -> str:
    """An adopted VM's domain XML. Conflict for a change that its spec cannot bring about, and where
    it holds other ``devices`` than at its adoption: its definition names those alone.
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


def numa_seat(vm: VmRecord, allocations: Sequence[Allocation], site: VmSite) -> NumaSeat | None:
    """The seat; None where nothing was chosen, and the VM may lie anywhere.

    One node where placement chose one. A VM that no single node holds (its GPUs or its pinned CPUs
    lie on several, or it has more vCPUs than a node has CPUs) is split over the nodes: they have
    their vCPUs by their CPUs, and memory by their vCPUs. Memory is bound strictly where placement
    counted it there and there alone: with ``numa: require``, huge pages, or pinned CPUs.
    """
    if vm.spec.numa is NumaPolicy.NONE:
        return None
    nodes = {node.id: node for node in site.facts.numa}
    strict = _is_strict(vm)
    chosen = nodes.get(vm.numa_node) if vm.numa_node is not None else None
    if chosen is not None and (strict or _holds([chosen], vm)):
        return NumaSeat(shares=(_whole(chosen, vm),), strict=strict)
    if vm.numa_node is not None and chosen is None:
        share = NumaShare(node=vm.numa_node)
        return NumaSeat(shares=(share,), strict=True) if strict else None
    shares = _shares(_spanned(vm, allocations, site), vm)
    return NumaSeat(shares=shares) if len(shares) > 1 else None


def _is_strict(vm: VmRecord) -> bool:
    spec = vm.spec
    counted = bool(vm.cpus) or spec.hugepage_kib is not None or spec.numa is NumaPolicy.REQUIRE
    return counted and vm.numa_node is not None


def _whole(node: NumaNode, vm: VmRecord) -> NumaShare:
    vcpus = tuple(range(vm.spec.vcpus))
    return NumaShare(node=node.id, cpus=node.cpus, vcpus=vcpus, memory_mib=vm.spec.memory_mib)


def _holds(nodes: Sequence[NumaNode], vm: VmRecord) -> bool:
    """Have they a CPU for each vCPU?"""
    return sum(len(node.cpus) for node in nodes) >= vm.spec.vcpus


def _spanned(vm: VmRecord, allocations: Sequence[Allocation], site: VmSite) -> list[NumaNode]:
    """The nodes of its pinned CPUs; else of its GPUs, and more until each vCPU has a CPU."""
    able = [node for node in site.facts.numa if node.cpus]
    if vm.cpus:
        return [node for node in able if not set(node.cpus).isdisjoint(vm.cpus)]
    near = {site.gpus[each.gpu].facts.numa_node for each in allocations if each.gpu in site.gpus}
    near |= {vm.numa_node}
    found = [node for node in able if node.id in near]
    if len(found) < 2 and any(_holds([node], vm) for node in found or able):
        return []
    for node in able:
        if _holds(found, vm):
            break
        if node not in found:
            found.append(node)
    return sorted(found, key=lambda node: node.id)


def _shares(nodes: Sequence[NumaNode], vm: VmRecord) -> tuple[NumaShare, ...]:
    """Empty where the VM is too small for that many."""
    parts = list(_pinned(nodes, vm) if vm.cpus else _split(nodes, vm.spec.vcpus))
    page_mib = max(1, (vm.spec.hugepage_kib or 0) // 1024)
    memory = _portions(vm.spec.memory_mib // page_mib, [len(part) for part in parts])
    if sum(map(len, parts)) != vm.spec.vcpus or not all(parts) or not all(memory):
        return ()
    sizes = [pages * page_mib for pages in memory]
    sizes[-1] += vm.spec.memory_mib - sum(sizes)
    return tuple(
        NumaShare(node=node.id, cpus=node.cpus, vcpus=part, memory_mib=size)
        for node, part, size in zip(nodes, parts, sizes, strict=True)
    )


def _pinned(nodes: Sequence[NumaNode], vm: VmRecord) -> Iterator[tuple[int, ...]]:
    for node in nodes:
        yield tuple(vcpu for vcpu, cpu in enumerate(vm.cpus) if cpu in node.cpus)


def _split(nodes: Sequence[NumaNode], vcpus: int) -> Iterator[tuple[int, ...]]:
    first = 0
    for count in _portions(vcpus, [len(node.cpus) for node in nodes]):
        yield tuple(range(first, first + count))
        first += count


def _portions(total: int, weights: Sequence[int]) -> list[int]:
    """``total`` in whole numbers, as the weights are to each other."""
    whole = sum(weights) or 1
    ends = [total * end // whole for end in accumulate(weights)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def domain_xml(vm: VmRecord, allocations: tuple[Allocation, ...], site: VmSite) -> str:
    """The domain XML of a VM on its host, gated by the host's versions.

    Conflict for an adopted VM that cannot be defined as its record says.
    """
    spec, mark = vm.spec, ownership(vm, allocations, site.fleet)
    if vm.definition:
        held = [device for each in allocations for device in (each.device, *each.companions)]
        return adopted_xml(vm, mark, held)
    plan = DomainPlan(
        name=spec.name,
        uuid=vm.domain_uuid,
        vcpus=spec.vcpus,
        memory_mib=spec.memory_mib,
        accelerator=_accelerator(site),
        firmware=spec.firmware,
        disks=_disks(vm, site.facts),
        nics=tuple(_nics(vm)),
        hostdevs=_hostdevs(spec, allocations),
        graphics=spec.display or spec.console,
        screen=spec.screen,
        optional_devices=tuple(key for key in OPTIONAL_DEVICES if getattr(spec, key)),
        cpus=vm.cpus,
        seat=numa_seat(vm, allocations, site),
        hugepage_kib=spec.hugepage_kib,
        secure_boot=spec.secure_boot,
        cpu_model=spec.cpu_model,
        cpu_shares=spec.cpu_shares,
        mmio64_mib=_mmio64_mib(allocations, site),
        system=guests.system(spec.os) if spec.os else None,
        ownership=mark,
        labels=spec.labels,
    )
    return domainxml.render(plan, site.facts.versions)


def _nics(vm: VmRecord) -> Iterator[DomainNic]:
    """A VF that the VM does not hold, as while it is shelved, is none of its definition."""
    functions = nic_functions(vm)
    for number, nic in enumerate(vm.spec.nics):
        mac = nic.mac or mac_address(vm.id, number)
        if nic.sriov is None:
            yield DomainNic(mac=mac, network=nic.network, bridge=nic.bridge, tuning=nic.tuning)
        elif number in functions:
            tuning = NicTuning(vlan=nic.sriov.vlan)
            yield DomainNic(mac=mac, function=functions[number].address, tuning=tuning)


def ownership(vm: VmRecord, allocations: Iterable[Allocation], fleet: str) -> Ownership:
    """The mark that its domain carries."""
    return Ownership(
        fleet=fleet,
        vm=vm.name,
        vm_id=vm.id,
        generation=vm.generation,
        allocations=tuple(allocation.id for allocation in allocations),
        uuid=vm.spec.uuid,
    )


def _accelerator(site: VmSite) -> str:
    if site.host.accelerator == "auto":
        return "kvm" if site.facts.kvm else "tcg"
    return site.host.accelerator


def _hostdevs(spec: VmSpec, allocations: tuple[Allocation, ...]) -> tuple[Hostdev, ...]:
    """The devices in order; display goes on the first vGPU only."""
    vgpus = {Framework.MDEV, Framework.VFIO_VF}
    first_vgpu = next((a.id for a in allocations if a.framework in vgpus), None)
    return tuple(
        hostdev
        for each in allocations
        for hostdev in gpu.framework(each.framework).describe(
            each, display=spec.display and each.id == first_vgpu
        )
    )


def _mmio64_mib(allocations: tuple[Allocation, ...], site: VmSite) -> int:
    """The sum of the PCI windows that the whole GPUs of a VM need."""
    whole = [a for a in allocations if a.framework == Framework.PASSTHROUGH]
    offers = [offer for a in whole for offer in gpu.offers(site.gpus[a.gpu].facts)]
    return sum(offer.mmio64_mib for offer in offers if offer.framework is Framework.PASSTHROUGH)


# The place in the order of booting of a VM's first disk where it has CDs: behind all that there
# may be of those that are booted from first.
FIRST_DISK_BOOTS = MOST_CDS + 1


def _disks(vm: VmRecord, facts: HostFacts) -> tuple[DomainDisk, ...]:
    made = _made_disks(vm, facts)
    if not vm.spec.cds:
        return made
    first = next((each.target for each in made if not each.cdrom), "")
    ordered = (
        replace(each, boot_order=FIRST_DISK_BOOTS) if each.target == first else each
        for each in made
    )
    return (*ordered, *_cds(vm, facts))


def _cds(vm: VmRecord, facts: HostFacts) -> Iterator[DomainDisk]:
    """Behind the cloud-init seed's drive, whether there is one or not."""
    for number, cd in enumerate(vm.spec.cds, 1):
        yield replace(
            pool_disk(facts, cd.pool, cd.image, f"sd{chr(ord('a') + number)}"),
            cdrom=True,
            boot_order=number if cd.boot else FIRST_DISK_BOOTS + number,
        )


def _made_disks(vm: VmRecord, facts: HostFacts) -> tuple[DomainDisk, ...]:
    """Debian's kernel for clouds has no driver for SATA, Windows none for virtio-scsi."""
    has_sata = bool(vm.spec.os) and guests.system(vm.spec.os).is_windows
    return tuple(
        replace(
            pool_disk(facts, each.pool, each.name, each.guest_name),
            format=each.format,
            cdrom=each.disk is None,
            scsi=each.disk is None and not has_sata,
            tuning=each.disk.tuning if each.disk else UNTUNED_DISK,
        )
        for each in attached(vm)
    )


def pool_disk(facts: HostFacts, pool: str, volume: str, target: str) -> DomainDisk:
    """A volume as QEMU opens it on this host."""
    path = volume_path(facts, pool, volume)
    found = next(each for each in facts.pools if each.name == pool)
    server = found.source if found.kind == "rbd" else NO_SOURCE
    return DomainDisk(path=path, format="raw", target=target, type=found.disk_type, server=server)
