"""Simulated boards: the catalogue's facts in the shape that the simulated kernel needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from vgpumgr import catalog
from vgpumgr.catalog.shipped_tables import table
from vgpumgr.model.errors import UsageError
from vgpumgr.sim.boards.mdev_types import SAMPLES, SupportedMdevType, nvidia_types

MIB_PER_GIB = 1024
# The driver's own number of VFs is not known for some boards: one for every vGPU they can carry.
_LEAST_VFS = 16
# HD audio of GA102, AD102, GB202 and TU102; USB-C of TU102 (gpus.yaml, aux_functions; pci.ids).
_AUDIO = {"turing": "10f7", "ampere": "1aef", "ada": "22ba", "blackwell": "22e8"}
_USB_C = (("0c0330", "1ad6"), ("0c8000", "1ad7"))
# From AMD MI300X (85:00.0 has its first VF at 85:02.0) and Intel (0a:00.1): sriov_gpus.yaml.
_VF_OFFSETS = {"gim": 16, "xe": 1, "i915": 1}
# GH200's bus reset is blocked by a kernel quirk (linux612, behaviour §11).
_NO_BUS_RESET = range(0x2340, 0x2380)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """Another function of the GPU's slot, from .1 on: HD audio, USB-C."""

    pci_class: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PciBoard:
    """A PCI GPU as the kernel shows it. ``memory_mib`` is what NVML reports.

    ``host_mode`` is the catalogue's (``mdev-on-pf``, ``sriov-vf``), None for boards without vGPUs.
    ``vf_on_function`` is the SR-IOV offset: the first VF's distance from function 0, in functions;
    ``vf_stride`` the distance of the others. ``vf_driver`` is the driver_override of VFs that come
    on, ``vgpus`` what their vendor's resource manager admits where the catalogue does not say.
    ``fabric`` names the NVSwitch board it sits on.
    """

    key: str
    name: str
    vendor: str
    device: str
    subsystem: str
    memory_mib: int
    pci_class: str
    driver: str
    siblings: tuple[Sibling, ...] = ()
    types: tuple[SupportedMdevType, ...] = ()
    host_mode: str | None = None
    arch: str = ""
    mig: catalog.MigBoard | None = None
    mixed_size: bool = False
    sriov_total: int = 0
    vf_on_function: int = 0
    vf_stride: int = 1
    vf_device: str
    vf_driver: str = ""
    vgpus: catalog.Board | None = None
    gpus_per_board: int = 1
    reset_methods: str = "flr bus"
    fabric: str = ""


@cache
def pci_board(key: str) -> PciBoard:
    """The catalogue's board of that key; UsageError where there is none."""
    board, other = catalog.board(key), catalog.sriov_board(key)
    if board is not None:
        return _nvidia(board)
    if other is not None and other.driver:
        return _plain(other)
    raise UsageError(
        f"no board {key!r} to simulate",
        why="no host driver of it is known" if other else "",
        next=f"use a key of the catalogue (T4, H100-SXM5-80GB, MI300X) or one of "
        f"{', '.join(SAMPLES)}",
    )


def _nvidia(board: catalog.Board) -> PciBoard:
    row = next(each for each in table("gpus")["gpus"] if each["key"] == board.key)
    device = board.vendor_device.partition(":")[2]
    siblings = _siblings(board, row)
    return PciBoard(
        key=board.key,
        name=board.name,
        vendor="10de",
        device=device,
        subsystem=(board.subsystems or ("10de:0000",))[0],
        memory_mib=row.get("nvidia_smi_fb_mib") or board.memory_gib * MIB_PER_GIB,
        pci_class="030000" if siblings else "030200",
        driver="nvidia",
        siblings=siblings,
        types=nvidia_types(board.key) if board.host_mode else (),
        host_mode=board.host_mode,
        arch=board.arch,
        mig=catalog.mig(board),
        mixed_size=board.mixed_size,
        sriov_total=_nvidia_vfs(board),
        vf_on_function=board.vf_offset,
        vf_device=device,
        gpus_per_board=board.gpus_per_board,
        reset_methods="flr" if int(device, 16) in _NO_BUS_RESET else "flr bus",
        fabric=board.fabric,
    )


def _nvidia_vfs(board: catalog.Board) -> int:
    if board.sriov_vfs is not None or board.host_mode != "sriov-vf":
        return board.sriov_vfs or 0
    return max((each.max_gpu for each in board.types), default=_LEAST_VFS)


def _siblings(board: catalog.Board, row: dict[str, Any]) -> tuple[Sibling, ...]:
    """Display boards have audio at .1, Turing's RTX boards USB-C at .2 and .3 (behaviour §11)."""
    turing_rtx = board.arch == "turing" and board.key.startswith("RTX")
    if not turing_rtx and row.get("display_mode_factory") != "display-enabled":
        return ()
    kinds = (("040300", _AUDIO[board.arch]), *(_USB_C if turing_rtx else ()))
    return tuple(Sibling(pci_class=kind, device=device) for kind, device in kinds)


def _plain(board: catalog.SriovBoard) -> PciBoard:
    vendor, _, device = board.vendor_device.partition(":")
    return PciBoard(
        key=board.key,
        name=board.name,
        vendor=vendor,
        device=device,
        subsystem=board.vendor_device,
        memory_mib=(board.memory_gib or 0) * MIB_PER_GIB,
        pci_class=board.pf_class or ("120000" if board.key.startswith("MI") else "030000"),
        driver=board.driver,
        sriov_total=board.total_vfs or max(board.allowed_vf_counts, default=_LEAST_VFS),
        vf_on_function=_VF_OFFSETS[board.driver],
        vf_device=board.vf_device.rpartition(":")[2],
    )
