"""Every way of giving a VM a part of a GPU: a host that can, its layout, and what to ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.faults.scenario import Place
from tests.simworld import NEW, host, vm
from vgpumgr.model.host import Versions
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.sim_fleet import SimBoard, SimHost
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec

FRESH = DiskSpec(size_bytes=1 << 20)
OVERLAY = DiskSpec(size_bytes=10 << 30, mode=DiskMode.OVERLAY, image="debian-12.qcow2")
COPY = replace(OVERLAY, mode=DiskMode.COPY)
SEED = CloudInit(user_data="#cloud-config\n")

# Kernels before 6.8 make vGPUs as mdevs; QEMU is new enough to move them.
MDEV = replace(NEW, kernel="6.1.0-37-amd64")

_ON_VFS = GpuLayout(vfs=VFS_MAX)
_MIG = GpuLayout(mig=True, vfs=VFS_MAX)


@dataclass(frozen=True, slots=True)
class Way:
    """``profiles`` is what the VM asks for, ``kept`` what another VM of ours has beside it.

    ``live``: libvirt can move it running.
    """

    board: str
    versions: Versions
    layout: GpuLayout | None
    profiles: tuple[str, ...]
    kept: str = ""
    live: bool = False
    fabric: str = ""

    def hosts(self, *names: str) -> tuple[SimHost, ...]:
        if self.fabric:
            boards = (SimBoard(board=self.board, count=8),)
            alike = [host(versions=self.versions, name=each, fabric=self.fabric) for each in names]
            return tuple(replace(each, boards=boards) for each in alike)
        boards_of = [self.board, self.board] if self.board else []
        return tuple(host(*boards_of, versions=self.versions, name=name) for name in names)

    def enrol(self, place: Place, *names: str) -> None:
        """Enrolled, partitioned, and with a VM of ours on the first that nothing may disturb."""
        place.enrol(*names)
        place.cut(self.layout, *names)
        for other in names[1:]:
            place.cordon(other, on=True)
        place.apply(vm("keeper", *([self.kept] if self.kept else []), disks=(FRESH,)))
        for other in names[1:]:
            place.cordon(other, on=False)

    def desk(self, **fields: object) -> VmSpec:
        """The VM that scenarios are about."""
        if not self.fabric:
            return vm("desk", *self.profiles, **fields)
        whole = GpuRequest(profile="passthrough", count=2)
        return replace(vm("desk", **fields), gpus=(whole,))


WAYS = {
    "no gpu": Way("", NEW, None, (), live=True),
    "passthrough": Way("T4", NEW, None, ("passthrough",)),
    "fabric partition": Way("H100-SXM5-80GB", NEW, None, (), fabric="HGX-H100-8"),
    "mdev": Way("T4", MDEV, None, ("T4-4Q",), "T4-4Q", live=True),
    "mdev on VF": Way("A40", MDEV, _ON_VFS, ("A40-8Q",), "A40-8Q", live=True),
    "mdev in MIG": Way("A100-PCIE-80GB", MDEV, _MIG, ("1g.10gb",), "1g.10gb"),
    "vfio-vf": Way("L40S", NEW, _ON_VFS, ("L40S-8Q",), "L40S-8Q", live=True),
    "vfio-vf mixed": Way("L40S", NEW, replace(_ON_VFS, mixed_size=True), ("L40S-8Q",), "L40S-8Q"),
    "vfio-vf in MIG": Way("A100-PCIE-80GB", NEW, _MIG, ("3g.40gb",), "1g.10gb", live=True),
    "vfio-vf sharing MIG": Way(
        "RTX-PRO-6000-BSE",
        NEW,
        _MIG,
        ("RTX Pro 6000 Blackwell DC-1-2Q",),
        "RTX Pro 6000 Blackwell DC-1-2Q",
    ),
    "two vgpus": Way("L40S", NEW, _ON_VFS, ("L40S-48Q", "L40S-48Q")),
    "pci-vf": Way("FLEX-170", NEW, GpuLayout(vfs=5), ("FLEX-170-1of5",), "FLEX-170-1of5"),
}
