"""GPU facts as data, with look-ups: boards, vGPU types, MIG, plain VFs, NVSwitch boards, Xids.

Every number keeps its source and mark. A table is read when it is first asked for.
"""

from vgpumgr.catalog.boards import board, board_by_pci, boards
from vgpumgr.catalog.evidence import contradiction
from vgpumgr.catalog.fabric import FabricBoard, FabricPartition, fabric, fabric_boards, fits_fabric
from vgpumgr.catalog.limits import Limits, limits
from vgpumgr.catalog.mig import (
    GiProfile,
    MigBoard,
    gi_profile,
    mig,
    mig_types,
    name_today,
    whole_instance_type,
)
from vgpumgr.catalog.mig_compute import CiProfile
from vgpumgr.catalog.names import normalise, profiles, suggest
from vgpumgr.catalog.placement_ids import instance_ids, mixed_ids, placement_size, same_size_ids
from vgpumgr.catalog.slots import allocation_units, placement_slots, slice_slots, slot_mib, slots
from vgpumgr.catalog.sriov import (
    SriovBoard,
    parse_vf_profile,
    sriov_board,
    sriov_board_by_pci,
    sriov_boards,
    vf_memory_mib,
    vf_profile,
)
from vgpumgr.catalog.values import Board, VgpuType
from vgpumgr.catalog.xid import Xid, xid

__all__ = [
    "Board",
    "CiProfile",
    "FabricBoard",
    "FabricPartition",
    "GiProfile",
    "Limits",
    "MigBoard",
    "SriovBoard",
    "VgpuType",
    "Xid",
    "allocation_units",
    "board",
    "board_by_pci",
    "boards",
    "contradiction",
    "fabric",
    "fabric_boards",
    "fits_fabric",
    "gi_profile",
    "instance_ids",
    "limits",
    "mig",
    "mig_types",
    "mixed_ids",
    "name_today",
    "normalise",
    "parse_vf_profile",
    "placement_size",
    "placement_slots",
    "profiles",
    "same_size_ids",
    "slice_slots",
    "slot_mib",
    "slots",
    "sriov_board",
    "sriov_board_by_pci",
    "sriov_boards",
    "suggest",
    "vf_memory_mib",
    "vf_profile",
    "whole_instance_type",
    "xid",
]
