"""The product itself as a pool: its ``Placer`` on hosts with GPUs of the board."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from benchmarks.placement.pools.boards import Board, Kind, vm
from benchmarks.placement.pools.simulate import Pool
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply
from vgpumgr.model.vm import DEFAULT_POLICY, PlacementPolicy
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.resources.gpu_slots import mask_of
from vgpumgr.placement.tables.state_space import StateTransition

PLENTY = 1 << 20
"""Of vCPUs and MiB: GPUs alone are short."""


@dataclass(frozen=True, slots=True)
class OnPlacer:
    """A policy of the product that knows the mix, on hosts of ``per_host`` GPUs."""

    policy: PlacementPolicy = DEFAULT_POLICY
    values: bool = True
    per_host: int = 1

    def pool(self, board: Kind, mix: str, gpus: int) -> Pool:
        """The empty pool."""
        placer = Placer(
            fleet_of(board(), gpus, self.per_host),
            self.policy, mix=wanted(board(), mix), values=self.values,
        )  # fmt: skip
        return ProductPool(board(), placer)


class ProductPool:
    """Decides by a ``Placer``; ``log`` has where each VM went, None for a refusal."""

    def __init__(self, board: Board, placer: Placer) -> None:
        self.board = board
        self.placed: dict[int, tuple[Placed, StateTransition]] = {}
        self.moved: list[int] = []
        self.log: list[tuple[int, str | None]] = []
        self._placer = placer
        self._gpus: dict[str, dict[int, StateTransition]] = {}

    def accept(self, number: int, part: int) -> bool:
        """See ``Pool``."""
        request = vm(self.board.profiles[part], f"vm-{number}")
        decision = self._placer.decide(request, explain=False)
        if not isinstance(decision, Placed):
            self.log.append((number, None))
            return False
        self._put(number, part, decision)
        self.log.append((number, decision.assignments[0].gpu))
        return True

    def move(self, number: int, target: Placed) -> None:
        """From where it is to there."""
        _, step = self.placed[number]
        self.leave(number)
        self._put(number, step.part, target)
        self.moved.append(number)

    def leave(self, number: int) -> None:
        """See ``Pool``."""
        decision, _ = self.placed.pop(number)
        self._placer.release(decision)
        del self._gpus[decision.assignments[0].gpu][number]

    def _put(self, number: int, part: int, decision: Placed) -> None:
        self._placer.commit(decision)
        (assigned,) = decision.assignments
        slots = mask_of(assigned.slots) if assigned.offer.starts else 0
        step = StateTransition(part, slots, after=0)
        self.placed[number] = decision, step
        self._gpus.setdefault(assigned.gpu, {})[number] = step

    def held(self) -> Iterable[Iterable[StateTransition]]:
        """See ``Pool``."""
        return [gpu.values() for gpu in self._gpus.values()]

    def active(self) -> int | None:
        """See ``Pool``."""
        return sum(bool(gpu) for gpu in self._gpus.values())


def fleet_of(board: Board, gpus: int, per_host: int) -> Fleet:
    """That many GPUs, on as few hosts as hold them."""
    supplies = [replace(board.supply, id=f"{number}") for number in range(gpus)]
    chunks = [supplies[first : first + per_host] for first in range(0, gpus, per_host)]
    return Fleet(hosts=tuple(_host(f"h{n}", chunk) for n, chunk in enumerate(chunks)))


def wanted(board: Board, mix: str) -> Mix:
    """What the pool is asked for, as the product takes it."""
    shares = board.shares(mix)
    profiles = zip(board.profiles, shares.tolist(), strict=True)
    return Mix(tuple((vm(profile), share) for profile, share in profiles if share))


def _host(name: str, gpus: list[GpuSupply]) -> HostSupply:
    numbered = (replace(gpu, device=f"0000:{n + 1:02x}:00.0") for n, gpu in enumerate(gpus))
    return HostSupply(
        name=name, free_vcpus=PLENTY, free_memory_mib=PLENTY, numa=(), gpus=tuple(numbered)
    )
