"""The product that moves: what ``defrag plan --for PROFILE`` finds is carried out on a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.placement.pools.boards import Board, Kind, offers_of, vm
from benchmarks.placement.pools.policies import Budget
from benchmarks.placement.pools.product import ProductPool, fleet_of, wanted
from benchmarks.placement.pools.simulate import Pool
from vgpumgr.model.defrag import DefragMoves, FreeRoom, MoveMode, MoveRoute, Resident
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Placer
from vgpumgr.placement.defrag.move_search import plan_moves


@dataclass(frozen=True, slots=True)
class Moving:
    """A policy of the product with a budget of live moves, on hosts of ``per_host`` GPUs.

    ``effort`` is ``plan_moves``'s own.
    """

    budget: Budget
    policy: PlacementPolicy = PlacementPolicy.CAPACITY_FIRST
    per_host: int = 1
    effort: int = 0

    def pool(self, board: Kind, mix: str, gpus: int) -> Pool:
        """The empty pool."""
        fleet = fleet_of(board(), gpus, self.per_host)
        placer = Placer(fleet, self.policy, mix=wanted(board(), mix))
        return MovingPool(board(), placer, fleet, self.budget, self.effort)


class MovingPool(ProductPool):
    """Moves VMs from host to host where nothing has room, within a budget."""

    def __init__(
        self, board: Board, placer: Placer, bare: Fleet, budget: Budget, effort: int
    ) -> None:
        super().__init__(board, placer)
        self._bare = bare
        self._ways: Mapping[str, MoveRoute] = {
            host.name: MoveRoute(how=MoveMode.LIVE) for host in bare.hosts
        }
        self._mib = [offer.memory_mib for offer in offers_of(board)]
        self._budget, self._effort = budget, effort
        self._left = 0.0

    def accept(self, number: int, part: int) -> bool:
        """See ``Pool``."""
        if not super().accept(number, part):
            if not self._make_room(part):
                return False
            if not super().accept(number, part):
                raise AssertionError(f"moves made no room for {self.board.profiles[part]}")
        self._left = min(self._budget.saved, self._left + self._budget.share)
        return True

    def _make_room(self, part: int) -> bool:
        most = min(self._budget.most, int(self._left))
        if not most:
            return False
        numbers = {decision.request.name: n for n, (decision, _) in self.placed.items()}
        goal = FreeRoom(request=vm(self.board.profiles[part]))
        found = plan_moves(self._bare, self._residents(), goal, most=most, effort=self._effort)
        if not isinstance(found, DefragMoves):
            return False
        for move in found.moves:
            self.move(numbers[move.vm], move.target)
        self._left -= len(found.moves)
        return True

    def _residents(self) -> list[Resident]:
        return [
            Resident(placed=decision, ways=self._ways, gpu_mib=self._mib[step.part])
            for decision, step in self.placed.values()
        ]
