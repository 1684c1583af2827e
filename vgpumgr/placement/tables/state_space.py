"""The state space of one GPU: every state it can reach as parts come and leave.

Enumerated by the rules themselves from an empty GPU, so a table over it can never disagree with
what is placed. An A100 or H100 of 80 GB has 723 states in MIG, a same-size board some fifty.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from vgpumgr.model.placement import Assignment, Reason
from vgpumgr.model.supply import Offer
from vgpumgr.placement.fit.gpu_rules import judge
from vgpumgr.placement.resources.gpu_slots import Spot, mask_of, slots_of
from vgpumgr.placement.resources.gpu_state import GpuOccupancy, state_key
from vgpumgr.placement.tables.gpu_states import Part

MOST_STATES = 4000
"""Boards that can become more than that (mixed-size, mostly) are not enumerated."""


@dataclass(frozen=True, slots=True)
class StateTransition:
    """A part comes or goes. ``slots`` is where, as a mask; 0 where any slots do.

    ``broken`` counts the larger places that its coming makes unusable.
    """

    part: int
    slots: int
    after: int
    broken: int = 0


@dataclass(frozen=True, slots=True)
class StateSpace:
    """States are numbered from 0, the empty GPU.

    ``takes[state][part]`` are the ways to place one more of the part, the rules' favourite first;
    () without room. ``leaves[state]`` has a step for every VM on it: what its departure leads to.
    ``free[state]`` are free units, ``units`` those of the board.
    """

    parts: tuple[Part, ...]
    units: int
    free: list[int] = field(default_factory=list)
    takes: list[tuple[tuple[StateTransition, ...], ...]] = field(default_factory=list)
    leaves: list[tuple[StateTransition, ...]] = field(default_factory=list)
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def size(self, part: int) -> int:
        """Units that the part takes of an empty GPU; 0 where it never fits."""
        ways = self.takes[0][part]
        return self.free[0] - self.free[ways[0].after] if ways else 0

    def number(self, gpu: GpuOccupancy) -> int | None:
        """The state that the GPU is in; None where it holds what no part of the space is."""
        return self.numbers.get(state_key(gpu))


def state_space(
    empty: GpuOccupancy, parts: Sequence[Part], most: int = MOST_STATES
) -> StateSpace | None:
    """Every state that ``parts``, coming and going, can bring an empty GPU into.

    None where there are more than ``most``.
    """
    space = StateSpace(tuple(parts), empty.board.units)
    walk = _Walk(space)
    walk.number(empty.copy(), ())
    for gpu, held in walk.met:
        space.free.append(gpu.free_units)
        space.takes.append(tuple(walk.taking(gpu, held, part) for part in range(len(parts))))
        space.leaves.append(tuple(walk.leaving(gpu, held, one) for one in range(len(held))))
        if len(walk.met) > most:
            return None
    return space


_Held = tuple[tuple[int, Assignment], ...]
"""What lies on a GPU: the number of the part, and where it is."""


class _Walk:
    """``met`` grows while it is walked: the first GPU seen in each state, with what is on it."""

    def __init__(self, space: StateSpace) -> None:
        self.met: list[tuple[GpuOccupancy, _Held]] = []
        self._space = space

    def number(self, gpu: GpuOccupancy, held: _Held) -> int:
        key = state_key(gpu)
        number = self._space.numbers.setdefault(key, len(self.met))
        if number == len(self.met):
            self.met.append((gpu, held))
        return number

    def taking(self, gpu: GpuOccupancy, held: _Held, number: int) -> tuple[StateTransition, ...]:
        part = self._space.parts[number]
        for offer in gpu.matching(part.kind):
            spots = judge(gpu, offer, part.demand.vgpus)
            if not isinstance(spots, Reason):
                return tuple(self._coming(gpu, held, number, offer, spot) for spot in spots)
        return ()

    def leaving(self, gpu: GpuOccupancy, held: _Held, one: int) -> StateTransition:
        number, part = held[one]
        after = gpu.copy()
        after.release(part)
        left = self.number(after, held[:one] + held[one + 1 :])
        return StateTransition(number, _mask(gpu, part), left)

    def _coming(
        self, gpu: GpuOccupancy, held: _Held, number: int, offer: Offer, spot: Spot
    ) -> StateTransition:
        part = _assigned(gpu, offer, spot)
        after = gpu.copy()
        after.hold(part)
        to = self.number(after, (*held, (number, part)))
        return StateTransition(number, _mask(gpu, part), to, spot.broken)


def _mask(gpu: GpuOccupancy, part: Assignment) -> int:
    return 0 if gpu.board.counted else mask_of(part.slots)


def _assigned(gpu: GpuOccupancy, offer: Offer, spot: Spot) -> Assignment:
    supply = gpu.supply
    return Assignment(
        gpu=supply.id,
        device=supply.device,
        offer=offer,
        slots=slots_of(spot.slots),
        start=spot.at,
        vf=gpu.vfs[0] if offer.needs_vf else None,
        make_instance=spot.make_instance,
    )
