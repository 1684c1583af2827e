"""Supply of every host: CPUs, memory, GPUs, NVSwitch partitions, image copies, and the reasons
why a host takes no VMs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import attrgetter, is_
from typing import TypeVar

from vgpumgr import domainxml
from vgpumgr.engine.inventory.gpu_supply import gpu_supplies
from vgpumgr.engine.inventory.gpu_usage import HostContents
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.nic_supply import nic_supplies
from vgpumgr.engine.inventory.planned_power import without_power
from vgpumgr.model import formats
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.domain import DiskType, DomainFacts, DomainState
from vgpumgr.model.gpu import GpuRecord
from vgpumgr.model.host import HostFacts, HostRecord, MachineFeature, Membership, NumaNode
from vgpumgr.model.layout import LayoutRecord
from vgpumgr.model.refusal import Refusal, back_off, summary
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, NumaSupply, PartitionSupply
from vgpumgr.model.vm import VmRecord, VmState

MOST_HOSTS = 1 << 16
_EACH = 2
"""Of a host that many plans suppose otherwise, the one that is there stays."""


class SupplyMemory:
    """Remembers supplies of a fleet. They are pure functions of their parts: none is ever stale."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[tuple[object, ...], HostSupply], ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._last.values()))

    def of(
        self, host: str, parts: tuple[object, ...], make: Callable[[], HostSupply]
    ) -> HostSupply:
        """The supply of a host for these very ``parts``; ``make`` works it out."""
        known = self._last.get(host, ())
        for before, supply in known:
            if len(before) == len(parts) and all(map(is_, before, parts)):
                return supply
        if len(self._last) >= MOST_HOSTS:
            self._last = {}
        made = make()
        self._last[host] = ((parts, made), *known[: _EACH - 1])
        return made


Images = Mapping[str, tuple[str, ...]]


def kept_images(view: LedgerView) -> Callable[[str], Images]:
    """By host: the volume of every image in the ledger, with the storage pools that have it; for a
    bare volume that was looked for, the pools that may have it.
    """
    nowhere: Images = {image.volume: () for image in view.images}
    found: dict[str, Images] = {}
    for image in view.images:
        for host in {copy.host for copy in image.copies}:
            found[host] = {**found.get(host, nowhere), image.volume: image.pools(host)}
    pools = {host.name: _pools(host) for host in view.hosts} if view.absent else {}
    for host, pool, volume in sorted(view.absent):
        here = found.get(host, nowhere)
        left = here.get(volume, pools.get(host, ()))
        found[host] = {**here, volume: tuple(each for each in left if each != pool)}
    same, elsewhere = {host: _shared(each) for host, each in found.items()}, _shared(nowhere)
    return lambda host: same.get(host, elsewhere)


def _shared(images: Images) -> Images:
    """The very same for equal ones."""
    return _images(tuple(images.items()))


@lru_cache(maxsize=1 << 12)
def _images(items: tuple[tuple[str, tuple[str, ...]], ...]) -> Images:
    return dict(items)


def _pools(host: HostRecord) -> tuple[str, ...]:
    return tuple(pool.name for pool in host.facts.pools) if host.facts else ()


def partitions(host: HostContents, gpus: Sequence[GpuRecord]) -> tuple[PartitionSupply, ...]:
    """Partitions whose GPUs are all known here, less partitions that a foreign one overlaps.

    A partition that is active without a claim of the fleet was activated by another hand: no other
    partition with one of its GPUs can be activated until that one is deactivated.
    """
    fabric = host.facts.fabric
    if fabric is None:
        return ()
    ids = {gpu.facts.module_id: gpu.id for gpu in gpus if gpu.facts.module_id is not None}
    ours = {claim.unit for claim in host.facts.claims if claim.fleet == host.fleet}
    foreign = {
        number
        for partition in fabric.partitions
        if partition.active and formats.fabric_claim(partition.id) not in ours
        for number in partition.gpus
    }
    return tuple(
        PartitionSupply(id=each.id, gpus=frozenset(ids[number] for number in each.gpus))
        for each in fabric.partitions
        if all(number in ids and number not in foreign for number in each.gpus)
    )


Row = TypeVar("Row", GpuRecord, VmRecord, Allocation)

# Parts of a probe without which nothing may be placed on a host.
NEEDED_PARTS = frozenset({"devices", "mdevs", "claims", "libvirt", "domains"})
# One mdev or claim that could not be read may hold any unit of the host.
NEEDED_ITEMS = ("mdevs ", "claims ")

CORDONED = "cordoned"
# How a host's refusal begins that says nothing of its room.
NOT_REACHED, NOT_READ = "not reached", "could not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedSupply:
    """GPUs (our ids) and hosts that get no VM; with ``back_off`` also those that refused lately."""

    gpus: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    back_off: bool = True

    @property
    def with_back_off(self) -> ExcludedSupply:
        """The same without the back-off of recent refusals."""
        return replace(self, back_off=False)


LATELY_REFUSED = ExcludedSupply()
SUPPLIES = SupplyMemory()
"""Of this process."""
_TRIED = "it refused in this operation"


def build_fleet(
    view: LedgerView, left: ExcludedSupply = LATELY_REFUSED, memory: SupplyMemory = SUPPLIES
) -> Fleet:
    """Every host's supply after what the ledger holds and what foreigners use, without what is
    ``left`` out. Of a host of which the view has the very values it had before, the supply is the
    one of then.
    """
    hosts: Iterable[HostSupply] = _supplies(view, memory)
    dark = without_power(view)
    if view.refusals or left.gpus or left.hosts or dark:
        refusals = _by_place(view.refusals)
        hosts = (_less(host, refusals, left, dark) for host in hosts)
    return Fleet(hosts=tuple(hosts))


# All of a host's record but when it was seen, and how often it was changed.
_RECORD = attrgetter(
    *(f.name for f in fields(HostRecord) if f.name not in {"observed_at", "generation"})
)


def _supplies(view: LedgerView, memory: SupplyMemory) -> Iterator[HostSupply]:
    gpus, held = _group(view.gpus), _group(view.allocations)
    vms = _group(where_held(view.vms))
    layouts = {record.gpu: record for record in view.layouts}
    images = kept_images(view)
    for host in view.hosts:
        its_vms, its_gpus = vms.get(host.name, []), gpus.get(host.name, [])
        its_held, its_images = held.get(host.name, []), images(host.name)
        its_layouts = [layouts.get(gpu.id) for gpu in its_gpus]

        def make(
            host: HostRecord = host,
            vms: list[VmRecord] = its_vms,
            gpus: list[GpuRecord] = its_gpus,
            held: list[Allocation] = its_held,
            images: Images = its_images,
        ) -> HostSupply:
            contents = contents_of(host, view.fleet, vms, held, layouts)
            return _host_supply(host, vms, gpus, contents, images)

        parts = (
            view.fleet,
            its_images,
            *_RECORD(host),
            *its_gpus,
            *its_layouts,
            *its_held,
            *its_vms,
        )
        yield memory.of(host.name, parts, make)


Refusals = dict[tuple[str, str], list[Refusal]]


def _by_place(refusals: Iterable[Refusal]) -> Refusals:
    found: Refusals = {}
    for each in refusals:
        found.setdefault(each.place, []).append(each)
    return found


def _less(
    host: HostSupply, refusals: Refusals, left: ExcludedSupply, dark: Mapping[str, str]
) -> HostSupply:
    """The supply without excluded hosts and GPUs, with the reasons; an earlier reason wins."""
    own = refusals.get((host.name, ""), [])
    blocked = host.blocked
    if blocked == CORDONED and own:
        blocked = f"{CORDONED}: {summary(own)}"
    if host.name in left.hosts:
        blocked = blocked or _TRIED
    if left.back_off:
        blocked = blocked or back_off(own)
    gpus = tuple(
        _gpu_less(gpu, refusals.get((host.name, gpu.id), []), left, dark.get(gpu.id, ""))
        for gpu in host.gpus
    )
    if blocked == host.blocked and all(map(is_, gpus, host.gpus)):
        return host
    return replace(host, blocked=blocked, gpus=gpus)


def _gpu_less(
    gpu: GpuSupply, refusals: Sequence[Refusal], left: ExcludedSupply, dark: str
) -> GpuSupply:
    tried = _TRIED if gpu.id in left.gpus else ""
    blocked = gpu.blocked or tried or dark or (back_off(refusals) if left.back_off else "")
    return gpu if blocked == gpu.blocked else replace(gpu, blocked=blocked)


def host_contents(view: LedgerView) -> dict[str, HostContents]:
    """The contents of every host that was ever probed, by host."""
    vms, held = _group(where_held(view.vms)), _group(view.allocations)
    layouts = {record.gpu: record for record in view.layouts}
    found = {
        host.name: contents_of(
            host, view.fleet, vms.get(host.name, []), held.get(host.name, []), layouts
        )
        for host in view.hosts
    }
    return {name: contents for name, contents in found.items() if contents is not None}


def where_held(vms: Iterable[VmRecord]) -> Iterator[VmRecord]:
    """VMs where they take CPUs and memory: a moving VM on both hosts, and a VM that moves within
    its host once, with the CPUs and VFs of both places.
    """
    for vm in vms:
        to = vm.moving_to
        if to is not None and to.host == vm.host:
            yield replace(
                vm,
                cpus=tuple(dict.fromkeys((*vm.cpus, *to.cpus))),
                nic_functions=tuple(dict.fromkeys((*vm.nic_functions, *to.nic_functions))),
            )
            continue
        yield vm
        if to is not None:
            yield replace(
                vm,
                host=to.host,
                numa_node=to.numa_node,
                cpus=to.cpus,
                nic_functions=to.nic_functions,
            )


def contents_of(
    host: HostRecord,
    fleet: str,
    vms: list[VmRecord],
    held: list[Allocation],
    layouts: dict[str, LayoutRecord],
) -> HostContents | None:
    """None for a host that was never probed."""
    if host.facts is None:
        return None
    ours = {vm.name for vm in vms}
    foreign = [domain for domain in host.facts.domains if domain.name not in ours]
    return HostContents(fleet, host.facts, held, foreign, layouts)


def _group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.host, []).append(row)
    return found


def _host_supply(
    host: HostRecord,
    vms: list[VmRecord],
    gpus: list[GpuRecord],
    contents: HostContents | None,
    images: Images,
) -> HostSupply:
    facts = host.facts
    if facts is None or contents is None:
        return HostSupply(
            name=host.name,
            free_vcpus=0,
            free_memory_mib=0,
            numa=(),
            gpus=(),
            labels=host.labels,
            blocked=host.last_error or "never probed",
        )
    every_vm = vms
    vms = [vm for vm in vms if vm.state is not VmState.SHELVED]  # they hold no place
    foreign = contents.foreign_domains
    running = [domain for domain in foreign if domain.state is not DomainState.SHUTOFF]
    usable = partitions(contents, gpus)
    return HostSupply(
        name=host.name,
        free_vcpus=_free_vcpus(host, facts, vms, running),
        free_memory_mib=_free_memory(host, facts, vms, running),
        numa=tuple(_numa_supply(node, facts, vms) for node in facts.numa),
        gpus=gpu_supplies(gpus, contents, usable),
        labels=host.labels,
        vm_labels=tuple(vm.spec.labels for vm in vms),
        networks=facts.networks,
        bridges=facts.bridges,
        filters=facts.filters,
        features=_features(facts),
        pools={pool.name: pool.room_bytes for pool in facts.pools if pool.active},
        pool_sizes={
            pool.name: pool.capacity_bytes
            for pool in facts.pools
            if pool.active and pool.capacity_bytes
        },
        stalled_pools=facts.stalled_pools,
        raw_pools=frozenset(
            pool.name for pool in facts.pools if pool.disk_type is not DiskType.FILE
        ),
        images=images,
        partitions=usable,
        foreign_domains=frozenset(domain.name for domain in foreign),
        blocked=_blocked(host, facts),
        vcpus=int(facts.cpus * host.cpu_overcommit),
        memory_mib=max(0, facts.memory_mib - host.reserved_memory_mib),
        nics=nic_supplies(host, facts, every_vm, contents),
    )


def _features(facts: HostFacts) -> tuple[str, ...]:
    """What machines can have there: what the host has installed, and what its libvirt does."""
    tagged = domainxml.knows(facts.versions.libvirt, "vlan on a bridge")
    return (*facts.features, *([MachineFeature.BRIDGE_VLAN] if tagged else []))


def _blocked(host: HostRecord, facts: HostFacts) -> str:
    if host.membership is not Membership.MEMBER:
        return f"{host.membership} the fleet"
    if host.cordoned:
        return CORDONED
    if host.probe_only:
        return "probe-only: the helper is not installed"
    if host.last_error:
        return f"{NOT_REACHED}: {host.last_error}"
    if host.settled_boot not in {"", facts.boot_id}:
        again = f"without serve: vgpumgr host uncordon {host.name}"
        return f"rebooted: vgpumgr serve is restoring its state ({again})"
    if facts.stopping:
        return "it is being shut down"
    return _not_read(facts)


def unread(host: HostRecord) -> str:
    """Why a host's facts are not what is on it now; empty where they are."""
    if host.membership is not Membership.MEMBER:
        return f"it is {host.membership} the fleet"
    if host.facts is None:
        return host.last_error or "never probed"
    return host.last_error or _not_read(host.facts)


def _not_read(facts: HostFacts) -> str:
    for unknown in facts.unknown:
        if unknown.part in NEEDED_PARTS or unknown.part.startswith(NEEDED_ITEMS):
            return f"{NOT_READ} {unknown.part}: {unknown.why}"
    return ""


def _free_vcpus(
    host: HostRecord, facts: HostFacts, vms: list[VmRecord], running: list[DomainFacts]
) -> int:
    used = sum(vm.spec.vcpus for vm in vms) + sum(domain.vcpus for domain in running)
    return max(0, int(facts.cpus * host.cpu_overcommit) - used)


def _free_memory(
    host: HostRecord, facts: HostFacts, vms: list[VmRecord], running: list[DomainFacts]
) -> int:
    ours = sum(vm.spec.memory_mib for vm in vms if vm.spec.hugepage_kib is None)
    pages = sum(node.set_aside_mib for node in facts.numa)
    used = ours + pages + sum(domain.memory_mib for domain in running)
    return max(0, facts.memory_mib - host.reserved_memory_mib - used)


def _numa_supply(node: NumaNode, facts: HostFacts, vms: list[VmRecord]) -> NumaSupply:
    here = [vm for vm in vms if vm.numa_node == node.id]
    pinned = {cpu for vm in vms for cpu in vm.cpus}
    ordinary = sum(vm.spec.memory_mib for vm in here if vm.spec.hugepage_kib is None)
    # A VM bound to no node may take its pages from any of them.
    paged = [vm for vm in vms if vm.numa_node in {node.id, None}]
    return NumaSupply(
        id=node.id,
        free_cpus=tuple(c for c in node.cpus if c not in pinned) if pinned else node.cpus,
        free_memory_mib=max(0, node.memory_mib - node.set_aside_mib - ordinary),
        free_hugepages={
            size: max(0, free - _pages_reserved(size, paged, facts))
            for size, free in node.hugepages_free.items()
        },
    )


def _pages_reserved(size_kib: int, vms: list[VmRecord], facts: HostFacts) -> int:
    """Huge pages of VMs that do not run: the probe still counts them as free."""
    vms = [vm for vm in vms if vm.spec.hugepage_kib == size_kib]
    if not vms:
        return 0
    running = {d.name for d in facts.domains if d.state is not DomainState.SHUTOFF}
    return sum(-(-vm.spec.memory_mib * 1024 // size_kib) for vm in vms if vm.name not in running)
