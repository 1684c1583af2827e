"""Names of profiles: the known ones, and the nearest to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from vgpumgr.catalog.boards import boards
from vgpumgr.catalog.gpu_partitioning import mig
from vgpumgr.catalog.sriov_gpus import sriov_boards, vf_profile
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
