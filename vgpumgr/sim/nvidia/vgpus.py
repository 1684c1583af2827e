"""The vGPUs of one GPU: made, placed, started and taken away by the carrier they lie on."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import TypeVar

from vgpumgr.catalog import VgpuType
from vgpumgr.sim.linux.tree import refusal
from vgpumgr.sim.nvidia import placements
from vgpumgr.sim.nvidia.admission import Card, Seat, admit
from vgpumgr.sim.nvidia.refused import Refused, log_lines
from vgpumgr.sim.nvidia.vgpu import Vgpu

T = TypeVar("T")

_FIXED_PLACEMENT = "vgpu-placement-id"

# Alike cards answer alike: a fleet has hundreds of them, and a probe asks for every type.
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
        """Those of ``types`` that may be made now; none on a carrier that has a vGPU."""
        if carrier in self._by_carrier:
            return ()
        try:
            card = self._card(self.all)
        except Refused:
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
        except Refused:
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
            except Refused:
                break
            more.append(self._vgpu("", wanted, seat))
        return len(more)

    def create(self, carrier: str, wanted: VgpuType) -> None:
        """EPERM: the carrier has one already; EIO: refused, and the log says why."""
        if carrier in self._by_carrier:
            raise refusal(errno.EPERM)
        try:
            seat = admit(self._card(self.all), wanted)
        except Refused as refused:
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
        if placement_id not in placements.supported(card.board, vgpu.type, mixed=card.mixed):
            raise refusal(errno.EINVAL)
        others = [each for each in self.all if each is not vgpu]
        mates = [each for each in others if each.instance_id == vgpu.instance_id]
        if not placements.creatable(card.board, vgpu.type, (placement_id,), mates):
            raise refusal(errno.EBUSY)
        vgpu.placement_id = placement_id

    def start(self, carriers: Sequence[str], vm: str) -> None:
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
            self._by_carrier[carrier].vm = vm

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
    except Refused:
        return False
    return True


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise refusal(errno.EINVAL) from None
