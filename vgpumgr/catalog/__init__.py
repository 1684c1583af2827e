"""GPU boards and vGPU types as data, with look-ups. Every number keeps its source and mark."""

from vgpumgr.catalog.boards import board, board_by_pci, boards
from vgpumgr.catalog.names import normalise, profiles, suggest
from vgpumgr.catalog.slots import allocation_units, slot_mib, slots
from vgpumgr.catalog.values import Board, VgpuType

__all__ = [
    "Board",
    "VgpuType",
    "allocation_units",
    "board",
    "board_by_pci",
    "boards",
    "normalise",
    "profiles",
    "slot_mib",
    "slots",
    "suggest",
]
