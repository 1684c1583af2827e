"""The helper's probe answer and libvirt's facts → HostFacts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpumgr.hosts.facts.answer import Answer
from vgpumgr.hosts.facts.gpu_facts import gpus
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
    probe = Answer(answer)
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
        cpus=probe.number("cpus"),
        memory_mib=probe.number("memory_mib"),
        iommu=probe.flag("iommu"),
        kvm=probe.flag("kvm"),
        numa=tuple(_numa(each) for each in probe.objects("numa")),
        gpus=tuple(gpus(probe)),
        mdevs=tuple(_mdev(each) for each in probe.objects("mdevs")),
        claims=tuple(_claim(each) for each in probe.objects("claims")),
        domains=tuple(domains),
        pools=tuple(pools),
        networks=tuple(networks),
        bridges=probe.texts("bridges"),
        foreign_mdev_definitions=probe.texts("mdevctl"),
        cpu_model=probe.text("cpu_model"),
        hugepage_kib=probe.maybe_number("hugepage_kib"),
        fabric=_fabric(probe.maybe_child("fabric")),
        epochs=_epochs(probe.maybe_child("epochs")),
        epoch=probe.maybe_number("epoch"),
        stopping=probe.flag("stopping"),
        unknown=tuple(
            UnknownPart(part=each.text("part"), why=each.text("why"))
            for each in probe.objects("unknown")
        ),
    )


def _epochs(told: Answer | None) -> dict[str, int] | None:
    return None if told is None else {fleet: told.number(fleet) for fleet in told.names()}


def _numa(node: Answer) -> NumaNode:
    pages = node.objects("hugepages")
    return NumaNode(
        id=node.number("node"),
        cpus=node.numbers("cpus"),
        memory_mib=node.number("memory_mib"),
        hugepages_free={page.number("size_kib"): page.number("free") for page in pages},
        hugepages_total={page.number("size_kib"): page.number("total") for page in pages},
    )


def _mdev(mdev: Answer) -> Mdev:
    return Mdev(
        uuid=mdev.text("uuid"),
        parent=mdev.text("parent"),
        type_id=mdev.text("type"),
        iommu_group=mdev.maybe_number("iommu_group"),
    )


def _claim(claim: Answer) -> ClaimFacts:
    return ClaimFacts(
        unit=claim.text("unit"),
        fleet=claim.text("fleet"),
        epoch=claim.number("epoch"),
        allocation=claim.text("allocation"),
        generation=claim.number("generation"),
        vm=claim.text("vm"),
        wanted=claim.mapping("wanted"),
    )


def _fabric(fabric: Answer | None) -> FabricFacts | None:
    if fabric is None:
        return None
    return FabricFacts(
        partitions=tuple(
            FabricPartition(
                id=each.number("id"),
                gpus=tuple(gpu.number("physical_id") for gpu in each.objects("gpus")),
                active=each.flag("active"),
            )
            for each in fabric.objects("partitions")
        )
    )
