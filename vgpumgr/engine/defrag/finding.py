"""Moves that reach a goal, each of which its two hosts would let happen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from vgpumgr.engine.defrag.lowering import lower, share
from vgpumgr.engine.defrag.proving import refusal
from vgpumgr.engine.defrag.residents import residents
from vgpumgr.engine.session import Session
from vgpumgr.engine.supply import build_fleet
from vgpumgr.model.defrag import Goal, Move, Moves, NoMoves, Resident
from vgpumgr.model.placement import Fleet
from vgpumgr.placement.defrag import plan_moves, without

# How often moves are looked for anew because a host would refuse one.
_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of defragmentation.

    ``goal`` None: that at most ``share`` of the free GPU memory is of no use. ``cold``: a running
    VM may be stopped for its move. ``most`` moves are allowed.
    """

    goal: Goal | None = None
    share: float = 0.3
    cold: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragPlan:
    """What was found. ``before`` and ``after`` are shares of free GPU memory that is of no use.

    ``colder`` is how many moves would do if running VMs might be stopped, where only so it goes.
    ``refused`` says which VM a host would not take, and why.
    """

    wanted: Wanted
    found: Moves | NoMoves
    before: float
    after: float
    colder: int | None = None
    refused: tuple[str, ...] = ()


def find(session: Session, wanted: Wanted) -> DefragPlan:
    """By the last observation, and a look at the hosts of every VM that would move."""
    finding = _Finding(session, wanted)
    plan = finding.run(cold=wanted.cold)
    if isinstance(plan.found, Moves) or wanted.cold:
        return plan
    other = finding.run(cold=True).found
    return replace(plan, colder=len(other.moves) if isinstance(other, Moves) else None)


class _Finding:
    def __init__(self, session: Session, wanted: Wanted) -> None:
        self._session = session
        self._wanted = wanted
        self._view = session.view()
        self._fleet = build_fleet(self._view)
        self._mix = session.expected.mix(session.ledger, session.clock.now(), self._fleet)
        self._refused: dict[tuple[str, str], str] = {}

    def run(self, *, cold: bool) -> DefragPlan:
        """Anew without what a host refuses, until it refuses nothing."""
        known = residents(self._view, self._fleet, cold=cold)
        bare = without(self._fleet, (each.placed for each in known))
        for _ in range(_ROUNDS):
            here = [self._allowed(each) for each in known]
            found = self._found(bare, here)
            if isinstance(found, NoMoves) or not self._refuses(found.moves):
                break
        moves = found.moves if isinstance(found, Moves) else ()
        return DefragPlan(
            wanted=self._wanted,
            found=found,
            before=share(bare, here, self._mix),
            after=share(bare, here, self._mix, moves),
            refused=tuple(self._refused.values()),
        )

    def _found(self, bare: Fleet, here: list[Resident]) -> Moves | NoMoves:
        wanted = self._wanted
        if wanted.goal is None:
            return lower(bare, here, self._mix, wanted.share, most=wanted.most)
        return plan_moves(bare, here, wanted.goal, most=wanted.most)

    def _allowed(self, resident: Resident) -> Resident:
        name = resident.placed.request.name
        ways = {to: way for to, way in resident.ways.items() if (name, to) not in self._refused}
        if len(ways) == len(resident.ways):
            return resident
        stays = next(text for (vm, _), text in self._refused.items() if vm == name)
        return replace(resident, ways=ways, stays="" if ways else stays)

    def _refuses(self, moves: Iterable[Move]) -> bool:
        """Look at the hosts of each VM's first move: only there it is now, to be looked at."""
        before = len(self._refused)
        first = {move.vm: move for move in reversed([*moves])}
        for move in first.values():
            why = refusal(self._session, self._view, move)
            if why:
                self._refused[move.vm, move.target.host] = why
        return len(self._refused) > before
