"""A probe of the helper and the facts of libvirt, checked and joined into HostFacts; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpumgr.hosts.facts.gpu_facts import MOST_GPUS, MOST_GROUP, gpus
from vgpumgr.hosts.facts.health_facts import xid_lines
from vgpumgr.hosts.facts.typed_answer import (
    LONGEST_TEXT,
    MOST,
    MOST_MIB,
    TypedAnswer,
    in_short,
    is_text,
)
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.errors import OutcomeUnknown
from vgpumgr.model.gpu import Mdev
from vgpumgr.model.host import (
    ClaimFacts,
    FabricFacts,
    FabricPartitionFacts,
    HostFacts,
    NumaNode,
    StoragePool,
    UnknownPart,
    Versions,
)
from vgpumgr.model.nic import NicFacts, NicVf

# libvirt refuses more.
_MOST_VCPUS = 2**16
_MOST_DEVICES = 1024
_MOST_NAMES = 4096


def check_libvirt_facts(
    host: str,
    domains: Sequence[DomainFacts],
    pools: Sequence[StoragePool],
    networks: Sequence[str],
    filters: Sequence[str],
    version: str,
) -> None:
    """Raises OutcomeUnknown naming what makes no sense."""
    _names(host, "networks", networks)
    _names(host, "network filters", filters)
    _names(host, "version", (version,))
    _names(host, "pools", [each.name for each in pools])
    _names(host, "domains", [each.name for each in domains])
    for pool in pools:
        where = f"pool {pool.name}"
        source = pool.source
        _texts(host, where, (pool.kind, pool.path, source.name, source.user, source.secret))
        _names(host, f"{where}: servers", source.hosts)
        _number(host, f"{where}: capacity", pool.capacity_bytes, MOST)
        _number(host, f"{where}: available", pool.available_bytes, MOST)
    for domain in domains:
        _domain(host, domain)


def _domain(host: str, domain: DomainFacts) -> None:
    where = f"domain {domain.name}"
    _texts(host, where, (domain.uuid, *domain.devices))
    _number(host, f"{where}: vcpus", domain.vcpus, _MOST_VCPUS)
    _number(host, f"{where}: memory", domain.memory_mib, MOST_MIB)
    _number(host, f"{where}: devices", len(domain.devices), _MOST_DEVICES)
    mark = domain.ownership
    if mark is not None:
        _number(host, f"{where}: generation", mark.generation, MOST)
        _texts(host, where, (mark.fleet, mark.vm, mark.vm_id, *mark.allocations))


def _names(host: str, where: str, names: Sequence[str]) -> None:
    _texts(host, where, names)
    if len(set(names)) < len(names):
        raise _nonsense(host, where, "a name is there twice")
    if len(names) > _MOST_NAMES:
        raise _nonsense(host, where, f"there are {len(names)}, at most {_MOST_NAMES} are read")


def _texts(host: str, where: str, texts: Iterable[str]) -> None:
    for text in texts:
        if len(text) > LONGEST_TEXT or not is_text(text):
            raise _nonsense(host, where, f"a text is too long or no text: {in_short(text)}")


def _number(host: str, where: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        why = f"a whole number from 0 to {most} expected, found {in_short(number)}"
        raise _nonsense(host, where, why)


def _nonsense(host: str, where: str, why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"what libvirt on {host} says cannot be understood: {in_short(where)}",
        why=why,
        next=f"virsh -c qemu:///system list --all   (on {host}), then vgpumgr host probe {host}",
    )


# More CPUs than kernels are built for.
MOST_CPUS = 2**16
MOST_NODES = 1024
MOST_PAGE_KIB = 2**34
MOST_PAGE_SIZES = 16
MOST_PAGES = 2**42
MOST_PARTITIONS = 256
MOST_NICS = 256
MOST_VFS = 2**16  # sriov_totalvfs has 16 bits
MOST_SPEED_MBIT = 10**8


@dataclass(frozen=True, slots=True, kw_only=True)
class LibvirtLists:
    """What libvirt lists of a host, in the order in which it is shown."""

    domains: tuple[DomainFacts, ...] = ()
    pools: tuple[StoragePool, ...] = ()
    networks: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    version: str = ""

    def check(self, host: str) -> None:
        """Raises OutcomeUnknown naming what is invalid."""
        check_libvirt_facts(
            host, self.domains, self.pools, self.networks, self.filters, self.version
        )


PartFields = Mapping[str, Any]
"""Fields of HostFacts by name, read from one part of a probe; its versions are in ``versions``."""


def _machine_fields(probe: TypedAnswer) -> PartFields:
    return {
        "boot_id": probe.text("boot_id"),
        "hostname": probe.text("hostname"),
        "versions": {key: probe.text(key) for key in ("kernel", "qemu", "helper")},
        "cpus": probe.number("cpus", most=MOST_CPUS),
        "memory_mib": probe.number("memory_mib", most=MOST_MIB),
        "iommu": probe.flag("iommu"),
        "kvm": probe.flag("kvm"),
        "bridges": probe.texts("bridges"),
        "features": probe.texts("features"),
        "defined_pools": probe.texts("storage_pools") if probe.has("storage_pools") else (),
        "stalled_pools": probe.texts("stalled_pools") if probe.has("stalled_pools") else (),
        "cpu_model": probe.text("cpu_model"),
        "hugepage_kib": probe.maybe_number("hugepage_kib", least=1, most=MOST_PAGE_KIB),
        "epoch": probe.maybe_number("epoch"),
        "stopping": probe.flag("stopping"),
    }


def _gpu_fields(probe: TypedAnswer) -> PartFields:
    return {
        "versions": {"driver": probe.child("nvml").text("driver")},
        "gpus": tuple(gpus(probe)),
        "fabric": _maybe_fabric(probe.maybe_child("fabric")),
    }


# The parts that docs/helper-protocol.md names.
PARTS: Mapping[str, Callable[[TypedAnswer], PartFields]] = {
    "machine": _machine_fields,
    "numa": lambda probe: {"numa": _numas(probe)},
    "gpus": _gpu_fields,
    "mdevs": lambda probe: {
        "mdevs": _mdevs(probe),
        "foreign_mdev_definitions": probe.texts("mdevctl"),
    },
    "claims": lambda probe: {
        "claims": _claims(probe),
        "epochs": _epochs(probe.maybe_child("epochs")),
    },
    "log": lambda probe: {"xids": xid_lines(probe)},
    "nics": lambda probe: {"nics": _nics(probe)},
    "unknown": lambda probe: {"unknown": unknown_parts(probe)},
}


def joined(host: str, parts: Iterable[PartFields], libvirt: LibvirtLists) -> HostFacts:
    """The facts of a host from all parts of a probe and libvirt's lists."""
    fields: dict[str, Any] = {}
    versions: dict[str, str] = {"libvirt": libvirt.version}
    for part in parts:
        versions |= part.get("versions", {})
        fields |= part
    fields |= {
        "versions": Versions(**versions),
        "domains": libvirt.domains,
        "pools": libvirt.pools,
        "networks": libvirt.networks,
        "filters": libvirt.filters,
    }
    return HostFacts(host=host, **fields)


def assemble(
    host: str, answer: Mapping[str, object], libvirt: LibvirtLists | None = None
) -> HostFacts:
    """Everything one whole probe read (docs/helper-protocol.md).

    Raises OutcomeUnknown naming the part of the answer that makes no sense.
    """
    lists = libvirt or LibvirtLists()
    lists.check(host)
    probe = TypedAnswer(answer, host=host)
    return joined(host, [read(probe) for read in PARTS.values()], lists)


def _epochs(told: TypedAnswer | None) -> dict[str, int] | None:
    return None if told is None else {fleet: told.number(fleet) for fleet in told.names()}


def unknown_parts(told: TypedAnswer) -> tuple[UnknownPart, ...]:
    """The parts that the helper could not read, and why."""
    found = told.objects("unknown")
    return tuple(UnknownPart(part=each.words("part"), why=each.words("why")) for each in found)


def _numas(probe: TypedAnswer) -> tuple[NumaNode, ...]:
    found = tuple(_numa(each) for each in probe.objects("numa", most=MOST_NODES))
    probe.once("numa", (each.id for each in found))
    return found


def _mdevs(probe: TypedAnswer) -> tuple[Mdev, ...]:
    found = tuple(_mdev(each) for each in probe.objects("mdevs"))
    probe.once("mdevs", (each.uuid for each in found))
    return found


def _claims(probe: TypedAnswer) -> tuple[ClaimFacts, ...]:
    found = tuple(claim_facts(each) for each in probe.objects("claims"))
    probe.once("claims", (each.unit for each in found))
    return found


def _numa(node: TypedAnswer) -> NumaNode:
    pages = tuple(node.objects("hugepages", most=MOST_PAGE_SIZES))
    return NumaNode(
        id=node.number("node", most=MOST_NODES),
        cpus=node.numbers("cpus", count=MOST_CPUS, most=MOST_CPUS),
        memory_mib=node.number("memory_mib", most=MOST_MIB),
        hugepages_free={_page_kib(page): page.number("free", most=MOST_PAGES) for page in pages},
        hugepages_total={_page_kib(page): page.number("total", most=MOST_PAGES) for page in pages},
    )


def _page_kib(page: TypedAnswer) -> int:
    return page.number("size_kib", least=1, most=MOST_PAGE_KIB)


def _mdev(mdev: TypedAnswer) -> Mdev:
    return Mdev(
        uuid=mdev.text("uuid"),
        parent=mdev.text("parent"),
        type_id=mdev.text("type"),
        iommu_group=mdev.maybe_number("iommu_group", most=MOST_GROUP),
    )


def _nics(probe: TypedAnswer) -> tuple[NicFacts, ...]:
    found = tuple(_nic(each) for each in probe.objects("nics", most=MOST_NICS))
    probe.once("nics", (each.name for each in found))
    probe.once("nics", (vf.address for each in found for vf in each.vfs))
    return found


def _nic(told: TypedAnswer) -> NicFacts:
    vfs = tuple(_nic_vf(each) for each in told.objects("vfs"))
    told.once("vfs", (each.number for each in vfs))
    return NicFacts(
        name=told.words("name"),
        device=told.address("address"),
        path=told.text("path"),
        driver=told.maybe_text("driver"),
        numa_node=told.maybe_number("numa_node", most=MOST_NODES),
        up=told.flag("up"),
        speed_mbit=told.maybe_number("speed_mbit", most=MOST_SPEED_MBIT),
        sriov_total=told.number("total", most=MOST_VFS),
        vfs=vfs,
    )


def _nic_vf(told: TypedAnswer) -> NicVf:
    return NicVf(
        number=told.number("number", most=MOST_VFS),
        address=told.address("address"),
        driver=told.maybe_text("driver"),
        busy=told.words("busy"),
    )


def claim_facts(claim: TypedAnswer) -> ClaimFacts:
    """A claim as it lies on the host."""
    return ClaimFacts(
        unit=claim.text("unit"),
        fleet=claim.text("fleet"),
        epoch=claim.number("epoch"),
        allocation=claim.text("allocation"),
        generation=claim.number("generation"),
        vm=claim.text("vm"),
        wanted=claim.mapping("wanted"),
    )


def _maybe_fabric(fabric: TypedAnswer | None) -> FabricFacts | None:
    return None if fabric is None else fabric_facts(fabric)


def fabric_facts(fabric: TypedAnswer) -> FabricFacts:
    """The NVSwitch partitions that Fabric Manager lists."""
    listed = fabric.objects("partitions", most=MOST_PARTITIONS)
    found = tuple(_partition(each) for each in listed)
    fabric.once("partitions", (each.id for each in found))
    return FabricFacts(partitions=found)


def _partition(told: TypedAnswer) -> FabricPartitionFacts:
    gpus = told.objects("gpus", most=MOST_GPUS)
    return FabricPartitionFacts(
        id=told.number("id", most=MOST_PARTITIONS),
        gpus=tuple(gpu.number("physical_id", most=MOST_GPUS) for gpu in gpus),
        active=told.flag("active"),
    )
