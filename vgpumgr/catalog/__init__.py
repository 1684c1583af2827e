"""GPU facts as data, with look-ups: boards, vGPU types, MIG, plain VFs, NVSwitch boards, Xids.

Every number keeps its source and mark. A table is read when it is first asked for.
"""

import difflib
from collections.abc import Iterable
from functools import cache

from vgpumgr.catalog.boards import (
    Board,
    VgpuType,
    board,
    board_by_pci,
    board_watts,
    boards,
    contradiction,
    screen_limits,
)
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
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE, profile_name


@cache
def profiles() -> frozenset[str]:
    """Every vGPU type, MIG profile and VF profile of every board, and ``passthrough``."""
    types = {each.profile for board in boards() for each in board.types}
    known = [found for board in boards() if (found := mig(board)) is not None]
    instances = {name for b in known for each in b.profiles for name in (each.name, *each.earlier)}
    vfs = {vf_profile(each.key, n) for each in sriov_boards() for n in each.allowed_vf_counts}
    return frozenset(types | instances | vfs | {PASSTHROUGH_PROFILE})


def normalise(name: str) -> str:
    """``GRID T4-4Q`` and ``NVIDIA T4-4Q`` → ``T4-4Q``; any other name as it is."""
    return profile_name(name, "nvidia-")


def suggest(name: str, also: Iterable[str] = ()) -> tuple[str, ...]:
    """At most three known profiles near ``name``, nearest first; ``also`` adds learned ones."""
    wanted = normalise(name).casefold()
    by_folded = {known.casefold(): known for known in sorted({*profiles(), *also})}
    return tuple(by_folded[near] for near in difflib.get_close_matches(wanted, by_folded, n=3))


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
    "board_watts",
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
    "screen_limits",
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
