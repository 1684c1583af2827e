"""Rules a host must pass before its GPUs are looked at, in the order they are tried.

Each rule returns None, or the Reason with its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.model.formats import exact_size, told_apart
from vgpumgr.model.host import MachineFeature
from vgpumgr.model.placement import Reason
from vgpumgr.placement.resources.demand import Demand, Labels, matches
from vgpumgr.placement.resources.host_state import HostState
from vgpumgr.placement.resources.nic_functions import candidates, chosen


def refuse_host(host: HostState, demand: Demand) -> Reason | None:
    """The first rule that fails, or None."""
    return (
        blocked(host)
        or name_taken(host, demand)
        or among_hosts(host, demand)
        or host_labels(host, demand)
        or together(host, demand)
        or apart(host, demand)
        or networks(host, demand)
        or bridges(host, demand)
        or filters(host, demand)
        or sriov_nics(host, demand)
        or features(host, demand)
        or pools(host, demand)
        or pool_formats(host, demand)
        or disks(host, demand)
        or free_bytes(host, demand)
        or images(host, demand)
        or vcpus(host, demand)
        or memory(host, demand)
        or hugepages(host, demand)
        or pinned_cpus(host, demand)
        or nic_functions(host, demand)
        or any_gpu(host, demand)
    )


def refuse_always(host: HostState, demand: Demand) -> Reason | None:
    """The first of these rules that fails among those that no placement changes and that need no
    host name.
    """
    return (
        blocked(host)
        or name_taken(host, demand)
        or host_labels(host, demand)
        or networks(host, demand)
        or bridges(host, demand)
        or filters(host, demand)
        or sriov_nics(host, demand)
        or features(host, demand)
        or pools(host, demand)
        or pool_formats(host, demand)
        or disks(host, demand)
        or images(host, demand)
        or any_gpu(host, demand)
    )


def refuse_affinity(host: HostState, demand: Demand) -> Reason | None:
    """The first of these rules that fails among those about the VMs on the host."""
    return together(host, demand) or apart(host, demand)


def blocked(host: HostState) -> Reason | None:
    """Cordoned, unreachable, without a helper: the supply says it in a sentence."""
    if not host.supply.blocked:
        return None
    return _no(host, "host-blocked", f"{host.name}: {host.supply.blocked}")


def name_taken(host: HostState, demand: Demand) -> Reason | None:
    """libvirt takes a name once: a foreign domain that has it stays."""
    if not demand.name or demand.name not in host.supply.foreign_domains:
        return None
    text = f"{host.name} has a foreign domain named {demand.name}"
    return _no(host, "name-taken", text, domain=demand.name)


def among_hosts(host: HostState, demand: Demand) -> Reason | None:
    """The request names the hosts it may run on."""
    if not demand.hosts or host.name in demand.hosts:
        return None
    wanted = ", ".join(demand.hosts)
    return _no(
        host,
        "affinity-hosts",
        f"{host.name} is excluded by affinity (hosts: {wanted})",
        wanted=wanted,
    )


def host_labels(host: HostState, demand: Demand) -> Reason | None:
    """The request wants a host with certain labels."""
    if not demand.host_labels or matches(demand.host_labels, host.supply.labels):
        return None
    wanted, has = _pairs(demand.host_labels), _pairs(host.supply.labels.items())
    text = f"{host.name} has labels {has or '(none)'}, {wanted} is needed"
    return _no(host, "host-labels", text, wanted=wanted, has=has)


def together(host: HostState, demand: Demand) -> Reason | None:
    """A VM of the wanted group must be on the host, unless this VM founds the group."""
    if not demand.together_with or demand.founding:
        return None
    if host.affinity_counts.matching(demand.together_with):
        return None
    wanted = _pairs(demand.together_with)
    text = f"none of the {host.affinity_counts.vms} VMs on {host.name} has {wanted} (together_with)"
    return _no(host, "together-with", text, wanted=wanted, vms=host.affinity_counts.vms)


def apart(host: HostState, demand: Demand) -> Reason | None:
    """No VM with the shunned labels may be on the host."""
    found = host.affinity_counts.matching(demand.apart_from) if demand.apart_from else 0
    if not found:
        return None
    shunned = _pairs(demand.apart_from)
    text = f"{host.name} already has {found} with {shunned} (apart_from)"
    return _no(host, "apart-from", text, shunned=shunned, found=found)


def networks(host: HostState, demand: Demand) -> Reason | None:
    """Every libvirt network must exist on the host."""
    return _missing(host, "network", demand.networks, host.supply.networks)


def bridges(host: HostState, demand: Demand) -> Reason | None:
    """Every bridge must exist on the host."""
    return _missing(host, "bridge", demand.bridges, host.supply.bridges)


def filters(host: HostState, demand: Demand) -> Reason | None:
    """Every network filter must exist on the host."""
    return _missing(host, "network filter", demand.filters, host.supply.filters)


def sriov_nics(host: HostState, demand: Demand) -> Reason | None:
    """For each NIC that is to be a VF the host has one with VFs on, which may be given."""
    for wanted in dict.fromkeys(demand.sriov):
        physical, network = wanted
        found = candidates(host.supply.nics, wanted)
        if not found:
            there = ", ".join(each.name for each in host.supply.nics) or "none"
            text = (
                f"{host.name} has no NIC {physical} with SR-IOV (it has: {there})"
                if physical
                else f"no NIC of {host.name} is joined to physical network {network!r}"
            )
            return _no(host, "sriov-nic", text, missing=physical or network, has=there)
        if all(each.blocked for each in found):
            return _no(host, "sriov-blocked", f"{host.name}: {found[0].blocked}", nic=found[0].name)
        if not any(each.vfs for each in found):
            text = f"{found[0].name} of {host.name} has no VF on"
            return _no(host, "sriov-off", text, nic=found[0].name)
    return None


def nic_functions(host: HostState, demand: Demand) -> Reason | None:
    """Enough VFs of its NICs that no VM has."""
    if not demand.sriov or chosen(host.nics, demand.sriov, ()) is not None:
        return None
    counts = {wanted: demand.sriov.count(wanted) for wanted in dict.fromkeys(demand.sriov)}
    for (physical, network), need in counts.items():
        found = candidates(host.supply.nics, (physical, network))
        free, every = (
            sum(len(host.nics.free(each)) for each in found),
            sum(len(each.vfs) for each in found),
        )
        if free < need or len(counts) == 1:
            what = physical or f"physical network {network!r}"
            text = f"{what} of {host.name} has {free} of {every} VFs free, {need} needed"
            return _no(host, "sriov-vfs", text, need=need, free=free, vfs=every)
    text = f"the NICs of {host.name} have too few free VFs for {len(demand.sriov)} together"
    return _no(host, "sriov-vfs", text, need=len(demand.sriov))


_FEATURES = {
    MachineFeature.TPM: "makes no TPM: is swtpm installed there?",
    MachineFeature.SECURE_BOOT: "has no firmware with secure boot: is ovmf installed there?",
    MachineFeature.BRIDGE_VLAN: "puts no VLAN tag on a bridge's port: that takes libvirt 11.0",
}


def features(host: HostState, demand: Demand) -> Reason | None:
    """The host's libvirt can make what the VM's machine is to have."""
    missing = [each for each in demand.features if each not in host.supply.features]
    if not missing:
        return None
    text = f"{host.name} {_FEATURES[missing[0]]}"
    return _no(host, str(missing[0]), text, missing=str(missing[0]))


def pools(host: HostState, demand: Demand) -> Reason | None:
    """Every storage pool must exist on the host, and answer."""
    for pool in demand.pools:
        if pool in host.supply.stalled_pools:
            text = f"storage pool {pool} of {host.name} does not answer: is its server gone?"
            return _no(host, "pool-stalled", text, pool=pool)
    return _missing(host, "storage pool", demand.pools, host.supply.pools)


def pool_formats(host: HostState, demand: Demand) -> Reason | None:
    """What is to be a file lies in a pool of files: a disk that is not raw, a cloud-init seed."""
    for pool in demand.file_pools:
        if pool in host.supply.raw_pools:
            text = (
                f"storage pool {pool} of {host.name} has raw volumes and no files: a disk there "
                "needs format: raw, and a seed another pool"
            )
            return _no(host, "pool-format", text, pool=pool)
    return None


def disks(host: HostState, demand: Demand) -> Reason | None:
    """No disk may be larger than all of its storage pool."""
    for pool, size in demand.disk_bytes:
        most = host.supply.pool_sizes.get(pool, size)
        if size > most:
            has, asked = exact_size(most), exact_size(size)
            text = (
                f"storage pool {pool} of {host.name} has {has} in all, a disk of {asked} is needed"
            )
            return _no(host, "pool-size", text, pool=pool, need_bytes=size, has_bytes=most)
    return None


def free_bytes(host: HostState, demand: Demand) -> Reason | None:
    """The new disks of one VM must fit into what is free of their storage pool as the host was last
    seen. Volumes are thin: those of several VMs together may still be larger than it.
    """
    for pool, need in demand.pool_bytes:
        free = host.supply.pools.get(pool, need)
        if need > free:
            has, asked = exact_size(free), exact_size(need)
            text = f"storage pool {pool} of {host.name} has {has} free, disks of {asked} are needed"
            return _no(host, "pool-free", text, pool=pool, need_bytes=need, free_bytes=free)
    return None


def images(host: HostState, demand: Demand) -> Reason | None:
    """The storage pool must have the image's copy, where the host's copies are known."""
    for pool, volume in demand.images:
        has = host.supply.images.get(volume)
        if has is not None and pool not in has:
            image = volume.rpartition("-")[0] if "@" in volume else volume
            text = f"{host.name} has no copy of image {image} in storage pool {pool!r}"
            return _no(host, "image", text, image=image, pool=pool)
    return None


def vcpus(host: HostState, demand: Demand) -> Reason | None:
    """Enough vCPUs, overcommit included."""
    need, free = demand.vcpus, host.free_vcpus
    if free >= need:
        return None
    text = f"{host.name} has {max(free, 0)} vCPUs free, {need} are needed"
    return _no(host, "vcpus", text, need=need, free=free)


def memory(host: HostState, demand: Demand) -> Reason | None:
    """Enough ordinary memory."""
    need, free = demand.memory_mib, host.memory_mib
    if free >= need:
        return None
    there, asked = told_apart(max(free, 0), need)
    text = f"{host.name} has {there} of memory free, {asked} is needed"
    return _no(host, "memory", text, need_mib=need, free_mib=free)


def hugepages(host: HostState, demand: Demand) -> Reason | None:
    """Enough huge pages of the wanted size, on all nodes together."""
    need, free = demand.pages, host.free_pages(demand.hugepage_kib)
    if not need or free >= need:
        return None
    size = demand.hugepage_kib
    text = f"{host.name} has {free} huge pages of {size} KiB free, {need} are needed"
    return _no(host, "hugepages", text, need=need, free=free, page_kib=size)


def pinned_cpus(host: HostState, demand: Demand) -> Reason | None:
    """Enough CPUs that no VM is pinned to, on all nodes together."""
    need = demand.vcpus
    if not demand.pin_cpus or (free := host.free_cpus()) >= need:
        return None
    text = f"{host.name} has {free} CPUs that no VM is pinned to, {need} are needed"
    return _no(host, "pinned-cpus", text, need=need, free=free)


def any_gpu(host: HostState, demand: Demand) -> Reason | None:
    """A VM with GPU parts needs a host with GPUs."""
    if host.supply.gpus or not demand.kinds:
        return None
    return _no(host, "no-gpu", f"{host.name} has no GPU, {demand.parts} needed", need=demand.parts)


def _missing(
    host: HostState, what: str, wanted: tuple[str, ...], has: Iterable[str]
) -> Reason | None:
    if not wanted:
        return None
    known = set(has)
    for name in wanted:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            text = f"{host.name} has no {what} {name!r} (it has: {there})"
            return _no(host, what.replace(" ", "-"), text, missing=name, has=there)
    return None


def _no(host: HostState, code: str, text: str, **facts: int | str) -> Reason:
    return Reason(code=code, host=host.name, text=text, facts=facts)


def _pairs(labels: Labels | Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels)
