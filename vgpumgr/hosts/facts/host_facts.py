"""The helper's probe answer and libvirt's facts → HostFacts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.hosts.facts import libvirt_facts
from vgpumgr.hosts.facts.answer import MOST_MIB, Answer
from vgpumgr.hosts.facts.gpu_facts import MOST_GPUS, gpus
from vgpumgr.hosts.facts.vf_facts import MOST_GROUP
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import Mdev
from vgpumgr.model.host import (
    ClaimFacts,
    FabricFacts,
    FabricPartition,
    HostFacts,
    NumaNode,
    StoragePool,
    UnknownPart,
    Versions,
)

# More CPUs than kernels are built for.
MOST_CPUS = 2**16
MOST_NODES = 1024
MOST_PAGE_KIB = 2**34
MOST_PAGE_SIZES = 16
MOST_PAGES = 2**42
MOST_PARTITIONS = 256


def assemble(
    host: str,
    answer: Mapping[str, object],
    domains: Sequence[DomainFacts] = (),
    pools: Sequence[StoragePool] = (),
    networks: Sequence[str] = (),
    libvirt_version: str = "",
) -> HostFacts:
    """Everything one probe read (docs/helper-protocol.md).

    Raises OutcomeUnknown naming the part of the answer that makes no sense.
    """
    libvirt_facts.check(host, domains, pools, networks, libvirt_version)
    probe = Answer(answer, host=host)
    return HostFacts(
        host=host,
        boot_id=probe.text("boot_id"),
        hostname=probe.text("hostname"),
        versions=Versions(
            kernel=probe.text("kernel"),
            libvirt=libvirt_version,
            qemu=probe.text("qemu"),
            driver=probe.child("nvml").text("driver"),
            helper=probe.text("helper"),
        ),
        cpus=probe.number("cpus", most=MOST_CPUS),
        memory_mib=probe.number("memory_mib", most=MOST_MIB),
        iommu=probe.flag("iommu"),
        kvm=probe.flag("kvm"),
        numa=_numas(probe),
        gpus=tuple(gpus(probe)),
        mdevs=_mdevs(probe),
        claims=_claims(probe),
        domains=tuple(domains),
        pools=tuple(pools),
        networks=tuple(networks),
        bridges=probe.texts("bridges"),
        foreign_mdev_definitions=probe.texts("mdevctl"),
        cpu_model=probe.text("cpu_model"),
        hugepage_kib=probe.maybe_number("hugepage_kib", least=1, most=MOST_PAGE_KIB),
        fabric=_maybe_fabric(probe.maybe_child("fabric")),
        epochs=_epochs(probe.maybe_child("epochs")),
        epoch=probe.maybe_number("epoch"),
        stopping=probe.flag("stopping"),
        unknown=unknown_parts(probe),
    )


def _epochs(told: Answer | None) -> dict[str, int] | None:
    return None if told is None else {fleet: told.number(fleet) for fleet in told.names()}


def unknown_parts(told: Answer) -> tuple[UnknownPart, ...]:
    """The parts that the helper could not read, and why."""
    found = told.objects("unknown")
    return tuple(UnknownPart(part=each.words("part"), why=each.words("why")) for each in found)


def _numas(probe: Answer) -> tuple[NumaNode, ...]:
    found = tuple(_numa(each) for each in probe.objects("numa", most=MOST_NODES))
    probe.once("numa", (each.id for each in found))
    return found


def _mdevs(probe: Answer) -> tuple[Mdev, ...]:
    found = tuple(_mdev(each) for each in probe.objects("mdevs"))
    probe.once("mdevs", (each.uuid for each in found))
    return found


def _claims(probe: Answer) -> tuple[ClaimFacts, ...]:
    found = tuple(claim_facts(each) for each in probe.objects("claims"))
    probe.once("claims", (each.unit for each in found))
    return found


def _numa(node: Answer) -> NumaNode:
    pages = tuple(node.objects("hugepages", most=MOST_PAGE_SIZES))
    return NumaNode(
        id=node.number("node", most=MOST_NODES),
        cpus=node.numbers("cpus", count=MOST_CPUS, most=MOST_CPUS),
        memory_mib=node.number("memory_mib", most=MOST_MIB),
        hugepages_free={_page_kib(page): page.number("free", most=MOST_PAGES) for page in pages},
        hugepages_total={_page_kib(page): page.number("total", most=MOST_PAGES) for page in pages},
    )


def _page_kib(page: Answer) -> int:
    return page.number("size_kib", least=1, most=MOST_PAGE_KIB)


def _mdev(mdev: Answer) -> Mdev:
    return Mdev(
        uuid=mdev.text("uuid"),
        parent=mdev.text("parent"),
        type_id=mdev.text("type"),
        iommu_group=mdev.maybe_number("iommu_group", most=MOST_GROUP),
    )


def claim_facts(claim: Answer) -> ClaimFacts:
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


def _maybe_fabric(fabric: Answer | None) -> FabricFacts | None:
    return None if fabric is None else fabric_facts(fabric)


def fabric_facts(fabric: Answer) -> FabricFacts:
    """The NVSwitch partitions that Fabric Manager lists."""
    listed = fabric.objects("partitions", most=MOST_PARTITIONS)
    found = tuple(_partition(each) for each in listed)
    fabric.once("partitions", (each.id for each in found))
    return FabricFacts(partitions=found)


def _partition(told: Answer) -> FabricPartition:
    gpus = told.objects("gpus", most=MOST_GPUS)
    return FabricPartition(
        id=told.number("id", most=MOST_PARTITIONS),
        gpus=tuple(gpu.number("physical_id", most=MOST_GPUS) for gpu in gpus),
        active=told.flag("active"),
    )
