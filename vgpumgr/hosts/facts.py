"""The helper's probe answer and libvirt's facts → HostFacts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpumgr import catalog
from vgpumgr.hosts.answer import Answer
from vgpumgr.model.address import PciAddress
from vgpumgr.model.domain import DomainFacts
from vgpumgr.model.gpu import GpuFacts, Mdev, MdevType
from vgpumgr.model.host import (
    ClaimFacts,
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
        gpus=tuple(_gpus(probe)),
        mdevs=tuple(_mdev(each) for each in probe.objects("mdevs")),
        claims=tuple(_claim(each) for each in probe.objects("claims")),
        domains=tuple(domains),
        pools=tuple(pools),
        networks=tuple(networks),
        bridges=probe.texts("bridges"),
        foreign_mdev_definitions=probe.texts("mdevctl"),
        unknown=tuple(
            UnknownPart(part=each.text("part"), why=each.text("why"))
            for each in probe.objects("unknown")
        ),
    )


def _gpus(probe: Answer) -> Iterator[GpuFacts]:
    parents = {each.text("name"): each for each in probe.objects("parents")}
    nvml = {_address(each): each for each in probe.child("nvml").objects("gpus")}
    functions: set[str] = set()
    for device in probe.objects("devices"):
        address = device.text("address")
        functions |= {address, *device.child("sriov").texts("vfs")}
        yield _pci_gpu(device, nvml.get(address), parents.get(address))
    for name, parent in parents.items():
        if name not in functions:
            yield _other_parent(name, parent)


def _pci_gpu(device: Answer, nvml: Answer | None, parent: Answer | None) -> GpuFacts:
    vendor_device = f"{device.text('vendor')}:{device.text('device')}"
    board = catalog.board_by_pci(vendor_device, device.text("subsystem"))
    return GpuFacts(
        device=device.text("address"),
        path=device.text("path"),
        model=vendor_device if board is None else board.key,
        vendor_device=vendor_device,
        uuid=nvml.maybe_text("uuid") if nvml else None,
        serial=nvml.maybe_text("serial") if nvml else None,
        numa_node=_node(device.maybe_number("numa_node")),
        memory_mib=nvml.maybe_number("memory_mib") if nvml else None,
        driver=device.maybe_text("driver"),
        iommu_group=device.maybe_number("iommu_group"),
        group_devices=device.texts("group_devices"),
        boot_vga=device.flag("boot_vga"),
        reset_methods=device.texts("reset_methods"),
        mdev_types=_types(parent) if parent else (),
    )


def _other_parent(name: str, parent: Answer) -> GpuFacts:
    """A parent that is no display device: the kernel's samples, known by their name alone."""
    return GpuFacts(device=name, path=parent.text("path"), model=name, mdev_types=_types(parent))


def _types(parent: Answer) -> tuple[MdevType, ...]:
    return tuple(
        MdevType(
            type_id=each.text("id"),
            name=each.text("name"),
            available=each.maybe_number("available"),
            device_api=each.text("device_api", "vfio-pci"),
            description=each.text("description"),
        )
        for each in parent.objects("types")
    )


def _address(gpu: Answer) -> str:
    """NVML pads the domain to eight digits; sysfs does not."""
    text = gpu.text("address")
    try:
        return str(PciAddress.parse(text))
    except ValueError:
        return text


def _node(number: int | None) -> int | None:
    """The kernel's -1 means that the device belongs to no node."""
    return None if number is None or number < 0 else number


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
