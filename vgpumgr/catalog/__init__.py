"""GPU facts as data, with look-ups: boards, vGPU types, MIG, plain VFs, NVSwitch boards, Xids.

Every number keeps its source and mark. A table is read when it is first asked for.
"""

from vgpumgr.catalog.boards import Board, VgpuType, board, board_by_pci, boards, contradiction
from vgpumgr.catalog.gpu_partitioning import (
    CiProfile,
    GiProfile,
    MigBoard,
    allocation_units,
    gi_profile,
    instance_ids,
    mig,
    mig_types,
    mixed_ids,
    name_today,
    placement_size,
    placement_slots,
    same_size_ids,
    slice_slots,
    slot_mib,
    slots,
    whole_instance_type,
)
from vgpumgr.catalog.nvswitch import (
    FabricBoard,
    FabricPartitionRow,
    fabric,
    fabric_boards,
    fits_fabric,
)
from vgpumgr.catalog.profile_names import normalise, profiles, suggest
from vgpumgr.catalog.shipped_tables import Limits, limits
from vgpumgr.catalog.sriov_gpus import (
    SriovBoard,
    parse_vf_profile,
    sriov_board,
    sriov_board_by_pci,
    sriov_boards,
    vf_memory_mib,
    vf_profile,
)
from vgpumgr.catalog.xid import RecoveryAction, Xid, recovery_actions, xid, xid_class, xids

__all__ = [
    "Board",
    "CiProfile",
    "FabricBoard",
    "FabricPartitionRow",
    "GiProfile",
    "Limits",
    "MigBoard",
    "RecoveryAction",
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
    "recovery_actions",
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
    "xid_class",
    "xids",
]
