"""The vGPUs of one GPU: admitted and placed, started and removed by their carrier.

Admission as in the open kernel modules 595.45.04; a placement id is a place in the frame
buffer of the GPU or of a GPU instance.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.sim.linux.file_tree import refusal
from vgpumgr.sim.nvidia.mig_grid import SimGpuInstance
from vgpumgr.sim.nvidia.rm_status import RmRefusal, RmStatus, log_lines


@dataclass(slots=True, eq=False)
class Vgpu:
    """A vGPU: ``carrier`` is the VF's address or the mdev's UUID.

    ``instance_id`` is its GPU instance, None for a time-sliced one; ``placement_id`` None where
    the driver has no ids for it. ``uuid`` is NVML's, not the mdev's; ``handle`` is NVML's number
    of it; ``vm`` is empty until a domain with it runs. ``params`` are ``vgpu_params`` as they are
    read at the next start of the VM. ``vm_id`` is that domain's UUID. ``unlicensed``: its guest
    has found no licence.
    """

    carrier: str
    type: VgpuType
    instance_id: int | None
    placement_id: int | None
    handle: int
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    params: dict[str, str] = field(default_factory=dict)
    vm: str = ""
    vm_id: str = ""
    unlicensed: bool = False

    @property
    def type_id(self) -> int:
        """The driver's number of the type."""
        assert self.type.id is not None
        return self.type.id


def supported_places(board: Board, wanted: VgpuType, *, mixed: bool) -> tuple[int, ...]:
    """All ids the driver knows for the type in that mode; none where it reports none."""
    if wanted.mig:
        return catalog.instance_ids(board, wanted)
    if mixed:
        return catalog.mixed_ids(board, wanted)
    return catalog.same_size_ids(board, wanted) or ()


def creatable_places(
    board: Board, wanted: VgpuType, ids: Sequence[int], neighbours: Iterable[Vgpu]
) -> tuple[int, ...]:
    """The placement ids of ``ids`` at which the type overlaps no other vGPU."""
    size = catalog.placement_size(board, wanted)
    taken = [
        (each.placement_id, each.placement_id + catalog.placement_size(board, each.type))
        for each in neighbours
        if each.placement_id is not None
    ]
    return tuple(
        id_ for id_ in ids if all(id_ + size <= start or id_ >= end for start, end in taken)
    )


LIMITS = catalog.limits()


@dataclass(frozen=True, slots=True)
class Card:
    """What admission looks at. ``instances`` None: MIG mode is off.

    ``any_series``: types of one size may differ in series (A, B, C, Q).
    """

    board: Board
    any_series: bool
    mixed: bool
    instances: Mapping[int, SimGpuInstance] | None
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
        raise RmRefusal(RmStatus.INVALID_OPERATION)
    return _time_sliced(card, wanted)


def _time_sliced(card: Card, wanted: VgpuType) -> Seat:
    """In mixed-size mode the placement ids decide, else the count."""
    ids = supported_places(card.board, wanted, mixed=card.mixed)
    free = creatable_places(card.board, wanted, ids, card.vgpus)
    most = LIMITS.per_gpu_time_sliced
    if not card.mixed:
        _check_same_size(card, wanted)
        most = min(most, wanted.max_gpu)
    if len(card.vgpus) >= most or (card.mixed and not free):
        raise RmRefusal(RmStatus.INSUFFICIENT_RESOURCES)
    return Seat(None, free[0] if free else None)


def _check_same_size(card: Card, wanted: VgpuType) -> None:
    """The first vGPU fixes the frame buffer size, before R550 the very type."""
    for each in card.vgpus:
        alike = each.type.fb_mib == wanted.fb_mib if card.any_series else each.type is wanted
        if not alike:
            raise RmRefusal(RmStatus.NOT_SUPPORTED)


def _in_instance(card: Card, instances: Mapping[int, SimGpuInstance], wanted: VgpuType) -> Seat:
    """The lowest GPU instance with the type's partition flag and room.

    INVALID_OPERATION without any such instance; NOT_SUPPORTED where only vGPUs of another size
    stand in the way.
    """
    fitting = sorted(
        number for number, each in instances.items() if each.profile.id == wanted.mig_id
    )
    if not wanted.mig or not fitting:
        raise RmRefusal(RmStatus.INVALID_OPERATION)
    if len(card.vgpus) >= LIMITS.per_gpu:
        raise RmRefusal(RmStatus.INSUFFICIENT_RESOURCES)
    refusals = set()
    for number in fitting:
        inside = [each for each in card.vgpus if each.instance_id == number]
        refusal = _refuses_inside(wanted, inside)
        if refusal is None:
            return Seat(number, _first_inside(card.board, wanted, inside))
        refusals.add(refusal)
    full = RmStatus.INSUFFICIENT_RESOURCES
    raise RmRefusal(full if full in refusals else RmStatus.NOT_SUPPORTED)


def _refuses_inside(wanted: VgpuType, inside: Sequence[Vgpu]) -> RmStatus | None:
    if any(each.type.fb_mib != wanted.fb_mib for each in inside):
        return RmStatus.NOT_SUPPORTED
    if len(inside) >= min(wanted.max_per_gi, LIMITS.per_gpu_instance):
        return RmStatus.INSUFFICIENT_RESOURCES
    return None


def _first_inside(board: Board, wanted: VgpuType, inside: Sequence[Vgpu]) -> int | None:
    ids = supported_places(board, wanted, mixed=False)
    free = creatable_places(board, wanted, ids, inside)
    return free[0] if free else None


T = TypeVar("T")

_FIXED_PLACEMENT = "vgpu-placement-id"

# Equal GPUs give equal answers: a fleet has hundreds of them, and a probe asks for every type.
_REMAINING: dict[object, int] = {}
_CREATABLE: dict[object, tuple[VgpuType, ...]] = {}
_REMEMBERED = 20_000


class Vgpus:
    """``card`` says what the GPU is like while it carries these vGPUs; Refused when it is lost.

    A carrier is a VF's address or an mdev's UUID, and has one vGPU at most. ``log`` is the
    kernel's.
    """

    def __init__(self, card: Callable[[Sequence[Vgpu]], Card], log: list[str]) -> None:
        self._card = card
        self._log = log
        self._by_carrier: dict[str, Vgpu] = {}
        self._made = 0

    @property
    def all(self) -> tuple[Vgpu, ...]:
        """Oldest first."""
        return tuple(self._by_carrier.values())

    def on(self, carrier: str) -> Vgpu | None:
        """The vGPU on that carrier."""
        return self._by_carrier.get(carrier)

    def creatable(self, carrier: str, types: Sequence[VgpuType]) -> tuple[VgpuType, ...]:
        """The types of ``types`` that may be made now; none on a carrier that has a vGPU."""
        if carrier in self._by_carrier:
            return ()
        try:
            card = self._card(self.all)
        except RmRefusal:
            return ()
        key = card.fingerprint()
        found = _CREATABLE.get(key)
        if found is None:
            found = tuple(each for each in types if _fits(card, each))
            _remember(_CREATABLE, key, found)
        return found

    def remaining(self, wanted: VgpuType) -> int:
        """How many more of the type could be made one after the other."""
        try:
            key = (self._card(self.all).fingerprint(), wanted.id)
        except RmRefusal:
            return 0
        found = _REMAINING.get(key)
        if found is None:
            found = self._count(wanted)
            _remember(_REMAINING, key, found)
        return found

    def _count(self, wanted: VgpuType) -> int:
        more: list[Vgpu] = []
        while len(more) < wanted.max_gpu:
            try:
                seat = admit(self._card((*self.all, *more)), wanted)
            except RmRefusal:
                break
            more.append(self._vgpu("", wanted, seat))
        return len(more)

    def create(self, carrier: str, wanted: VgpuType) -> None:
        """EPERM: the carrier has one already; EIO: refused, and the log says why."""
        if carrier in self._by_carrier:
            raise refusal(errno.EPERM)
        try:
            seat = admit(self._card(self.all), wanted)
        except RmRefusal as refused:
            self._log += log_lines(carrier, refused.status)
            raise refusal(errno.EIO) from None
        self._made += 1
        self._by_carrier[carrier] = self._vgpu(carrier, wanted, seat)

    def destroy(self, carrier: str) -> None:
        """EPERM while a VM has it, and where there is none."""
        self._idle(carrier)
        del self._by_carrier[carrier]

    def place(self, carrier: str, placement_id: int) -> None:
        """EPERM without an idle vGPU, EINVAL: none of its ids, EBUSY: another vGPU lies there."""
        vgpu = self._idle(carrier)
        card = self._card(self.all)
        if placement_id not in supported_places(card.board, vgpu.type, mixed=card.mixed):
            raise refusal(errno.EINVAL)
        others = [each for each in self.all if each is not vgpu]
        mates = [each for each in others if each.instance_id == vgpu.instance_id]
        if not creatable_places(card.board, vgpu.type, (placement_id,), mates):
            raise refusal(errno.EBUSY)
        vgpu.placement_id = placement_id

    def start(self, carriers: Sequence[str], vm: str, vm_id: str) -> None:
        """A placement fixed in the parameters is taken now (EINVAL, EBUSY where it cannot be).

        ENODEV: no vGPU there; EBUSY: another VM has it.
        """
        for carrier in carriers:
            vgpu = self._by_carrier.get(carrier)
            if vgpu is None:
                raise refusal(errno.ENODEV)
            if vgpu.vm:
                raise refusal(errno.EBUSY)
            if _FIXED_PLACEMENT in vgpu.params:
                self.place(carrier, _number(vgpu.params[_FIXED_PLACEMENT]))
        for carrier in carriers:
            vgpu = self._by_carrier[carrier]
            vgpu.vm, vgpu.vm_id, vgpu.unlicensed = vm, vm_id, False

    def stop(self, carriers: Sequence[str]) -> None:
        """The VM is gone, the vGPUs stay."""
        for carrier in carriers:
            if carrier in self._by_carrier:
                self._by_carrier[carrier].vm = ""

    def clear(self) -> None:
        """The driver let go of the GPU."""
        self._by_carrier.clear()

    def _idle(self, carrier: str) -> Vgpu:
        vgpu = self._by_carrier.get(carrier)
        if vgpu is None or vgpu.vm:
            raise refusal(errno.EPERM)
        return vgpu

    def _vgpu(self, carrier: str, wanted: VgpuType, seat: Seat) -> Vgpu:
        return Vgpu(carrier, wanted, seat.instance_id, seat.placement_id, self._made)


def _remember(known: dict[object, T], key: object, value: T) -> None:
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = value


def _fits(card: Card, wanted: VgpuType) -> bool:
    try:
        admit(card, wanted)
    except RmRefusal:
        return False
    return True


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise refusal(errno.EINVAL) from None
