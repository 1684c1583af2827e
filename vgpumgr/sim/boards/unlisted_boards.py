"""Simulated boards outside the catalogue.

One of NVIDIA's with MIG: an H100 PCIe 80 GB under another PCI id and other names. And one as
the device lab's hosts have it (docs/lab.md): an Intel 82576 with its class changed to that of a
display controller; its VFs are a plain part of a GPU, or carry types of a vendor's own under a
driver of their own. Numbers are those of QEMU's igb on Linux 6.12.
"""

from __future__ import annotations

from dataclasses import replace

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.model.sim_fleet import UNLISTED_MIG, UNLISTED_PLAIN, UNLISTED_VGPU
from vgpumgr.sim.boards.pci_board import PciBoard, pci_board

# What the lab's module writes into driver_override of VFs that carry vGPUs.
VF_DRIVER = "vgpumgr_lab_vf"

# No board has this id.
_MIG_LIKE, _MIG_DEVICE = "H100-PCIE-80GB", "fff0"
_FB_GIB = 16
_TYPES = ((801, "1Q"), (802, "2Q"), (803, "4Q"), (804, "8Q"), (805, "16Q"), (806, "2A"))


def _type(number: int, name: str) -> VgpuType:
    gib = int(name[:-1])
    return VgpuType(
        id=number,
        name=f"LAB V16-{name}",
        series=name[-1],
        fb_mib=gib * 1024,
        guest_fb_mib=None,
        max_gpu=_FB_GIB // gib,
        heads=None,
        resolution="",
        frl_fps=None,
        multi_vgpu=True,
        mig="",
        mig_id=None,
        max_per_gi=0,
        verified=False,
        source="",
        note="",
    )


def _resource_manager(key: str) -> Board:
    return Board(
        key=key,
        name="LAB V16",
        vendor_device="8086:10c9",
        subsystems=(),
        arch="",
        memory_gib=_FB_GIB,
        gpus_per_board=1,
        host_mode="sriov-vf",
        mig_capable=False,
        mmio64_mib=None,
        mixed_size=False,
        same_size_ids_reported=False,
        fractional_multi_vgpu=True,
        region_gib=None,
        sriov_vfs=7,
        sriov_vfs_verified=True,
        vf_offset=128,
        fabric="",
        source="",
        variants="",
        types=tuple(_type(number, name) for number, name in _TYPES),
    )


def _board(key: str, vgpus: Board | None) -> PciBoard:
    return PciBoard(
        key=key,
        name="82576 Gigabit Network Connection",
        vendor="8086",
        device="10c9",
        subsystem="1af4:1100",
        memory_mib=0,
        pci_class="030200",
        driver="igb",
        sriov_total=7,
        vf_on_function=128,
        vf_stride=2,
        vf_device="10ca",
        vf_driver=VF_DRIVER if vgpus else "",
        vgpus=vgpus,
        reset_methods="flr pm bus",
    )


def _mig() -> PciBoard:
    """As that board in everything but the id and the names."""
    like, manager = pci_board(_MIG_LIKE), catalog.board(_MIG_LIKE)
    assert manager is not None
    return replace(
        like,
        key=UNLISTED_MIG,
        name="LAB M80",
        device=_MIG_DEVICE,
        subsystem=f"10de:{_MIG_DEVICE}",
        vf_device=_MIG_DEVICE,
        types=tuple(replace(each, name=_renamed(each.name)) for each in like.types),
        vgpus=replace(
            manager,
            key=UNLISTED_MIG,
            name="LAB M80",
            types=tuple(replace(each, name=_renamed(each.name)) for each in manager.types),
        ),
    )


def _renamed(name: str) -> str:
    """``NVIDIA H100-1-10C`` → ``LAB M80-1-10C``."""
    return f"LAB M80-{name.partition('-')[2]}"


UNLISTED = {
    UNLISTED_MIG: _mig(),
    UNLISTED_PLAIN: _board(UNLISTED_PLAIN, None),
    UNLISTED_VGPU: _board(UNLISTED_VGPU, _resource_manager(UNLISTED_VGPU)),
}
