"""An independent check of placements: the fleet as it was found against all that lives on it now.

It knows what drivers, kernels and libvirt allow, and nothing of how placement decides; in which
order VMs came and went does not matter to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Assignment, Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import GpuRequest, NumaPolicy, VmSpec


def complaints(fleet: Fleet, live: Sequence[Placed]) -> list[str]:
    """Everything that is wrong with these VMs on this fleet."""
    hosts = {host.name: host for host in fleet.hosts}
    found = [text for each in live for text in _of_one(hosts[each.host], each)]
    for host in fleet.hosts:
        here = [each for each in live if each.host == host.name]
        found += _totals(host, here)
        for gpu in host.gpus:
            parts = [part for each in here for part in each.assignments if part.gpu == gpu.id]
            found += [f"{gpu.id}: {text}" for text in _on_gpu(gpu, parts)]
    return found


def _of_one(host: HostSupply, placed: Placed) -> Iterator[str]:
    request, parts = placed.request, placed.assignments
    wanted = [part for part in request.gpus for _ in range(part.count)]
    gpus = {gpu.id: gpu for gpu in host.gpus}
    if host.blocked:
        yield f"{host.name} is blocked"
    if request.affinity.hosts and host.name not in request.affinity.hosts:
        yield f"{host.name} was not asked for"
    if not dict(request.affinity.host_labels).items() <= dict(host.labels).items():
        yield f"{host.name} lacks labels"
    yield from _devices(host, request)
    if len(wanted) != len(parts):
        yield "not as many parts as asked for"
    for part, asked in zip(parts, wanted, strict=False):
        if not _answers(gpus[part.gpu], part, asked):
            yield f"{part.offer.profile} on {part.gpu} is not what was asked for"
    vgpus = sum(part.offer.framework is not Framework.PASSTHROUGH for part in parts)
    if any(vgpus > part.offer.max_per_vm for part in parts if not _whole(part)):
        yield "too many vGPUs for one VM"
    series = {(gpus[p.gpu].model, p.offer.series) for p in parts if _vgpu(p) and p.offer.series}
    if len(series) > 1:
        yield f"vGPUs of several families: {series}"
    if request.numa is NumaPolicy.REQUIRE and (
        placed.numa_node is None or {gpus[p.gpu].numa_node for p in parts} - {placed.numa_node}
    ):
        yield "not on one NUMA node"
    whole = frozenset(part.gpu for part in parts if _whole(part))
    if host.partitions and whole and whole not in {each.gpus for each in host.partitions}:
        yield f"{sorted(whole)} is no partition"


def _devices(host: HostSupply, request: VmSpec) -> Iterator[str]:
    for nic in request.nics:
        if nic.network and nic.network not in host.networks:
            yield f"no network {nic.network}"
        if nic.bridge and nic.bridge not in host.bridges:
            yield f"no bridge {nic.bridge}"
    for disk in request.disks:
        if disk.pool not in host.pools:
            yield f"no pool {disk.pool}"


def _answers(gpu: GpuSupply, part: Assignment, asked: GpuRequest) -> bool:
    offer = part.offer
    models = {model.casefold() for model in (*asked.models, *filter(None, [asked.model]))}
    named = asked.profile in (offer.profile, *offer.names)
    return (
        not gpu.blocked
        and offer in gpu.offers
        and (not models or gpu.model.casefold() in models)
        and asked.framework in (None, offer.framework)
        and (named if asked.profile else offer.memory_mib >= (asked.memory_mib or 0))
    )


def _totals(host: HostSupply, live: Sequence[Placed]) -> Iterator[str]:
    requests = [each.request for each in live]
    if sum(request.vcpus for request in requests) > host.free_vcpus and live:
        yield f"{host.name} has not that many vCPUs"
    plain = sum(each.memory_mib for each in requests if not each.hugepage_kib)
    if plain > host.free_memory_mib and live:
        yield f"{host.name} has not that much memory"
    pinned = Counter(cpu for each in live for cpu in each.cpus)
    if any(count > 1 for count in pinned.values()):
        yield f"{host.name} has CPUs pinned twice"
    if set(pinned) - {cpu for node in host.numa for cpu in node.free_cpus}:
        yield f"{host.name} has CPUs pinned that were not free"
    if any(len(each.cpus) != each.request.vcpus for each in live if each.request.pin_cpus):
        yield f"{host.name} has VMs with too few pinned CPUs"
    for node in host.numa:
        bound = [each for each in live if each.numa_node == node.id]
        memory = sum(b.request.memory_mib for b in bound if not b.request.hugepage_kib)
        if memory > node.free_memory_mib and bound:
            yield f"node {node.id} of {host.name} has not that much memory"
        for size, free in node.free_hugepages.items():
            if sum(_pages(each.request, size) for each in bound) > free:
                yield f"node {node.id} of {host.name} has not that many huge pages"
    for size in {each.hugepage_kib for each in requests if each.hugepage_kib}:
        free = sum(node.free_hugepages.get(size, 0) for node in host.numa)
        if sum(_pages(request, size) for request in requests) > free:
            yield f"{host.name} has not that many huge pages"


def _pages(request: VmSpec, size_kib: int) -> int:
    return -(-request.memory_mib * 1024 // size_kib) if request.hugepage_kib == size_kib else 0


def _on_gpu(gpu: GpuSupply, parts: Sequence[Assignment]) -> Iterator[str]:
    if not parts:
        return
    held = any(usage.framework is Framework.PASSTHROUGH for usage in gpu.usages)
    if held or (any(map(_whole, parts)) and (len(parts) > 1 or gpu.usages or gpu.instances)):
        yield "given whole, and not alone"
    if any(map(_whole, parts)):
        if len(gpu.free_slots) != gpu.units or gpu.passthrough_blocked:
            yield "cannot be given whole"
        return
    slots = Counter(slot for part in parts for slot in part.slots)
    inside = {slot for each in gpu.instances for slot in each.free}
    if any(count > 1 for count in slots.values()):
        yield "slots taken twice"
    if set(slots) - set(gpu.free_slots) - inside:
        yield "slots taken that were not free"
    vfs = [part.vf for part in parts if part.offer.needs_vf]
    if None in vfs or len(set(vfs)) < len(vfs) or set(vfs) - set(gpu.free_vfs):
        yield "VFs taken twice, or that were not free"
    yield from _counts(gpu, parts)
    yield from _instances(gpu, [part for part in parts if part.offer.instance])


def _counts(gpu: GpuSupply, parts: Sequence[Assignment]) -> Iterator[str]:
    plain = [part.offer for part in parts if part.offer.instance is None]
    live = Counter(usage.profile for usage in gpu.usages)
    live.update(offer.profile for offer in plain)
    if any(live[offer.profile] > offer.max_instances for offer in plain):
        yield "more of a profile than the driver makes"
    made = Counter(offer.type_id for offer in plain)
    if any(count > gpu.available.get(kind, count) for kind, count in made.items()):
        yield "more of a type than the driver offers"
    classes = {usage.size_class for usage in gpu.usages} | {offer.size_class for offer in plain}
    if gpu.same_size and plain and len(classes) > 1:
        yield "sizes mixed"
    for part in parts:
        starts = {start.at: start.slots for start in part.offer.starts}
        if part.offer.instance is None and starts and starts.get(part.start or 0) != part.slots:
            yield "not at a placement id of its type"
        if not starts and len(part.slots) != part.offer.units:
            yield "not as many slots as the type takes"


def _instances(gpu: GpuSupply, parts: Sequence[Assignment]) -> Iterator[str]:
    """MIG: what exists, and what has to be made for these parts."""
    existing = {(each.start, each.profile_id): each for each in gpu.instances}
    new: dict[tuple[int, int], list[Assignment]] = {}
    for part in parts:
        made = part.offer.instance
        assert made is not None and part.start is not None
        key = part.start, made.profile_id
        if key in existing:
            if set(part.slots) - set(existing[key].free) or existing[key].blocked:
                yield "in an instance without room"
        else:
            new.setdefault(key, []).append(part)
    taken = {slot for each in gpu.instances for slot in each.slots}
    slices = sum(each.gpu_slices for each in gpu.instances)
    media = sum(each.media for each in gpu.instances)
    count = Counter(each.profile_id for each in gpu.instances)
    for (at, profile), inside in new.items():
        offer, made = inside[0].offer, inside[0].offer.instance
        assert made is not None
        place = {start.at: set(start.slots) for start in offer.starts}.get(at, set())
        if not place or place & taken or place - set(gpu.free_slots):
            yield "an instance where none can be"
        if {slot for part in inside for slot in part.slots} - place:
            yield "outside its instance"
        if len(inside) > made.per_instance or len({p.offer.size_class for p in inside}) > 1:
            yield "too many, or different ones, in one instance"
        taken |= place
        slices, media = slices + made.gpu_slices, media + made.media
        count[profile] += 1
        if count[profile] > offer.max_instances:
            yield "more instances of a profile than the board makes"
    if new and gpu.gpu_slices and slices > gpu.gpu_slices:
        yield "more compute slices than the board has"
    if new and media > 1 and any(p.offer.instance and p.offer.instance.media for p in parts):
        yield "media extensions twice"


def _whole(part: Assignment) -> bool:
    return part.offer.framework is Framework.PASSTHROUGH


def _vgpu(part: Assignment) -> bool:
    return part.offer.framework in (Framework.MDEV, Framework.VFIO_VF)
