"""Which vGPU the resource manager takes, and where it puts it (open kernel modules 595.45.04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.sim.nvidia import placements
from vgpumgr.sim.nvidia.compute import GpuInstance
from vgpumgr.sim.nvidia.refused import Refused, Status
from vgpumgr.sim.nvidia.vgpu import Vgpu

LIMITS = catalog.limits()


@dataclass(frozen=True, slots=True)
class Card:
    """What admission looks at. ``instances`` None: MIG mode is off.

    ``any_series``: types of one size may differ in series (A, B, C, Q).
    """

    board: Board
    any_series: bool
    mixed: bool
    instances: Mapping[int, GpuInstance] | None
    vgpus: Sequence[Vgpu]

    def fingerprint(self) -> tuple[object, ...]:
        """Equal for two cards that admit the same; hashable."""
        there = None if self.instances is None else self.instances.values()
        instances = None if there is None else tuple((each.id, each.profile.id) for each in there)
        vgpus = tuple((each.type_id, each.instance_id, each.placement_id) for each in self.vgpus)
        return self.board.key, self.any_series, self.mixed, instances, vgpus


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a vGPU comes to lie."""

    instance_id: int | None
    placement_id: int | None


def admit(card: Card, wanted: VgpuType) -> Seat:
    """The seat of one more vGPU of the type, or Refused with the resource manager's status."""
    if card.instances is not None:
        return _in_instance(card, card.instances, wanted)
    if wanted.mig:
        raise Refused(Status.INVALID_OPERATION)
    return _time_sliced(card, wanted)


def _time_sliced(card: Card, wanted: VgpuType) -> Seat:
    """In mixed-size mode the placement ids decide, else the count."""
    ids = placements.supported(card.board, wanted, mixed=card.mixed)
    free = placements.creatable(card.board, wanted, ids, card.vgpus)
    most = LIMITS.per_gpu_time_sliced
    if not card.mixed:
        _check_same_size(card, wanted)
        most = min(most, wanted.max_gpu)
    if len(card.vgpus) >= most or (card.mixed and not free):
        raise Refused(Status.INSUFFICIENT_RESOURCES)
    return Seat(None, free[0] if free else None)


def _check_same_size(card: Card, wanted: VgpuType) -> None:
    """The first vGPU fixes the frame buffer size, before R550 the very type."""
    for each in card.vgpus:
        alike = each.type.fb_mib == wanted.fb_mib if card.any_series else each.type is wanted
        if not alike:
            raise Refused(Status.NOT_SUPPORTED)


def _in_instance(card: Card, instances: Mapping[int, GpuInstance], wanted: VgpuType) -> Seat:
    """The lowest GPU instance with the type's partition flag and room.

    INVALID_OPERATION without any such instance; NOT_SUPPORTED where only vGPUs of another size
    stand in the way.
    """
    fitting = sorted(
        number for number, each in instances.items() if each.profile.id == wanted.mig_id
    )
    if not wanted.mig or not fitting:
        raise Refused(Status.INVALID_OPERATION)
    if len(card.vgpus) >= LIMITS.per_gpu:
        raise Refused(Status.INSUFFICIENT_RESOURCES)
    refusals = set()
    for number in fitting:
        inside = [each for each in card.vgpus if each.instance_id == number]
        refusal = _refuses_inside(wanted, inside)
        if refusal is None:
            return Seat(number, _first_inside(card.board, wanted, inside))
        refusals.add(refusal)
    full = Status.INSUFFICIENT_RESOURCES
    raise Refused(full if full in refusals else Status.NOT_SUPPORTED)


def _refuses_inside(wanted: VgpuType, inside: Sequence[Vgpu]) -> Status | None:
    if any(each.type.fb_mib != wanted.fb_mib for each in inside):
        return Status.NOT_SUPPORTED
    if len(inside) >= min(wanted.max_per_gi, LIMITS.per_gpu_instance):
        return Status.INSUFFICIENT_RESOURCES
    return None


def _first_inside(board: Board, wanted: VgpuType, inside: Sequence[Vgpu]) -> int | None:
    ids = placements.supported(board, wanted, mixed=False)
    free = placements.creatable(board, wanted, ids, inside)
    return free[0] if free else None
