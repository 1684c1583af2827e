"""Simulated benches for mixed-size mode."""

from __future__ import annotations

from typing import Any

from tests.contract import mixed_size_cases
from tests.contract.mixed_size_bench import MixedSizeBench
from tests.contract.simulated.host import Run, SimMachine
from tests.contract.simulated.values import (
    DC,
    H100,
    NEW,
    OLD,
    RTX_PRO,
    host,
    number,
    total,
    turned_on,
)
from tests.contract.simulated.vgpus import A40_TYPES, Profiles, vgpu_fields
from tests.contract.vgpus import MdevsOnVfs, TypedVfs
from vgpumgr import catalog
from vgpumgr.model.host import Versions
from vgpumgr.model.ports import Host


def mixed(
    board: str,
    profiles: Profiles,
    smallest: tuple[str, int],
    step: int | None,
    *lists: Any,
    versions: Versions = NEW,
) -> Run[MixedSizeBench]:
    def bench(reached: Host, machine: SimMachine) -> MixedSizeBench:
        vfs = turned_on(reached, total(reached))
        mdevs = versions is OLD
        carriers = MdevsOnVfs(machine, vfs) if mdevs else TypedVfs(machine, vfs)
        fields = vgpu_fields(board, reached, machine, carriers, profiles)
        return MixedSizeBench(
            **fields,
            total=len(vfs),
            places={each: places(board, each) for each in (fields["small"], fields["large"])},
            smallest=number(board, smallest[0]),
            most_smallest=smallest[1],
            same_size_step=step,
        )

    usual = (mixed_size_cases.CASES, mixed_size_cases.FAULT_CASES)
    return Run(
        name=f"{board} {versions.kernel.partition('-')[0]}",
        host=host(board, versions),
        bench=bench,
        lists=(*usual, *lists),
        boots=(mixed_size_cases.REBOOT_CASES,),
    )


def places(board: str, type_id: int) -> tuple[int, ...]:
    found = catalog.board(board)
    assert found is not None
    return catalog.mixed_ids(found, next(each for each in found.types if each.id == type_id))


ON_FILES = mixed_size_cases.VF_PLACE_CASES
A40_MOST = ("A40-1Q", 30)
MIXED = (
    mixed("A40", A40_TYPES, A40_MOST, None, mixed_size_cases.MDEV_PLACE_CASES, versions=OLD),
    mixed("A40", A40_TYPES, A40_MOST, None, ON_FILES),
    mixed("L40S", ("L40S-4Q", "L40S-4A", "L40S-8Q"), ("L40S-1Q", 16), 4, ON_FILES),
    mixed(H100, ("H100-8C", "H100-8C", "H100-16C"), ("H100-8C", 8), 8, ON_FILES),
    mixed(
        RTX_PRO,
        (f"{DC}-4Q", f"{DC}-4A", f"{DC}-8Q"),
        (f"{DC}-3Q", 32),
        4,
        *(ON_FILES, mixed_size_cases.SAME_PLACES_CASES),
    ),
)
