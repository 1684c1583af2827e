"""What a board cannot do of a layout, told by the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vgpumgr import catalog
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.spec import instances
from vgpumgr.spec.instances import Entry
from vgpumgr.spec.partition import Fault
from vgpumgr.spec.problems import either

_PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
_ON_VFS = "sriov-vf"


def known(key: str) -> bool:
    """Whether it names a board: the catalogue's key, or the PCI id of one that it does not hold."""
    if catalog.board(key) is not None or catalog.sriov_board(key) is not None:
        return True
    return _PCI_ID.fullmatch(key) is not None and catalog.board_by_pci(key) is None


def faults(
    models: Sequence[str], devices: Sequence[str], layout: GpuLayout, wanted: Sequence[Entry]
) -> Iterator[Fault]:
    """What of the layout no GPU of these models could take; of a rule for all, no GPU at all.

    What ``devices`` are, and boards outside the catalogue can do, is known when it is planned.
    """
    for key in models:
        board, other = catalog.board(key), catalog.sriov_board(key)
        if board is not None:
            yield from of_board(board, layout, wanted)
        elif other is not None:
            yield from _of_other(other, layout)
    if not models and not devices and wanted:
        yield from instances.faults_everywhere(wanted)


def of_board(board: catalog.Board, layout: GpuLayout, wanted: Sequence[Entry]) -> Iterator[Fault]:
    """What an NVIDIA board cannot do of a layout; ``wanted`` are its declared instances."""
    if layout.mig and not board.mig_capable:
        yield Fault(f"{board.key} has no MIG", ("mig",) if not wanted else ("instances",))
        return
    if layout.mixed_size and not board.mixed_size:
        yield Fault(f"{board.key} has no mixed-size mode", ("mixed_size",))
    if layout.vfs:
        yield from _vfs(board, layout.vfs)
    yield from instances.faults(board, wanted)


def _vfs(board: catalog.Board, count: int) -> Iterator[Fault]:
    """NVIDIA's sriov-manage turns on all VFs of a board or none."""
    if board.host_mode is None:
        yield Fault(f"{board.key} has no vGPUs: leave it out", ("vfs",))
    elif board.host_mode != _ON_VFS:
        yield Fault(f"{board.key} creates its vGPUs without VFs: leave it out", ("vfs",))
    elif count != VFS_MAX and board.sriov_vfs_verified and count != board.sriov_vfs:
        yield Fault(f"{board.key} has {board.sriov_vfs} VFs or none: write vfs: max", ("vfs",))


def _of_other(board: catalog.SriovBoard, layout: GpuLayout) -> Iterator[Fault]:
    for part in ("mig", "mixed_size", "instances", "scheduler"):
        if getattr(layout, part):
            yield Fault(f"{board.key} is not NVIDIA's: a layout sets its vfs alone", (part,))
    count = layout.vfs
    if not count or count == VFS_MAX:
        return
    if board.total_vfs is not None and count > board.total_vfs:
        yield Fault(f"{board.key} has at most {board.total_vfs} VFs, not {count}", ("vfs",))
    elif board.allowed_vf_counts and count not in board.allowed_vf_counts:
        counts = either([str(each) for each in board.allowed_vf_counts])
        yield Fault(f"{board.key} is split into {counts} VFs, not {count}", ("vfs",))
