"""Moves that reach a goal, each of which its two hosts would let happen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from vgpumgr.engine.defrag.lowering import lower, share
from vgpumgr.engine.defrag.proving import refusal
from vgpumgr.engine.defrag.residents import residents
from vgpumgr.engine.defrag.ways import Allowed
from vgpumgr.engine.headroom.gauge import Gauging
from vgpumgr.engine.pooling import AtWork, at_work
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
    VM may be stopped for its move, ``with_users`` even where that cuts a user off; ``at_logoff``:
    desktops may be stopped, each while nobody is at work on it. ``most`` moves are allowed.
    """

    goal: Goal | None = None
    share: float = 0.3
    cold: bool = False
    with_users: bool = False
    at_logoff: bool = False
    most: int | None = None

    @property
    def allowed(self) -> Allowed:
        """What may be done with running VMs."""
        return Allowed(cold=self.cold, with_users=self.with_users, at_logoff=self.at_logoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragPlan:
    """What was found. ``before`` and ``after`` are shares of free GPU memory that is of no use.

    ``colder`` is how many moves would do if running VMs might be stopped, where only so it goes;
    ``users`` are those whom a plan that does would cut off, where only so it goes. ``refused`` says
    which VM a host would not take, and why.
    """

    wanted: Wanted
    found: Moves | NoMoves
    before: float
    after: float
    colder: int | None = None
    users: tuple[AtWork, ...] = ()
    refused: tuple[str, ...] = ()


def find(session: Session, wanted: Wanted) -> DefragPlan:
    """By the last observation, and a look at the hosts of every VM that would move."""
    finding = _Finding(session, wanted)
    plan = finding.run(wanted.allowed)
    if isinstance(plan.found, Moves) or wanted.with_users:
        return plan
    if not wanted.cold:
        other = finding.run(replace(wanted.allowed, cold=True)).found
        return replace(plan, colder=len(other.moves) if isinstance(other, Moves) else None)
    if not finding.users:
        return plan
    other = finding.run(Allowed(cold=True, with_users=True)).found
    return replace(plan, users=finding.cut_off(other) if isinstance(other, Moves) else ())


class _Finding:
    def __init__(self, session: Session, wanted: Wanted) -> None:
        self._session = session
        self._wanted = wanted
        self._view = session.view()
        self._fleet = build_fleet(self._view)
        now = session.clock.now()
        gauging = Gauging(self._fleet, session.expected, session.ledger, now)
        self._mix, self._before = gauging.mix, gauging.gauge().share
        self._refused: dict[tuple[str, str], str] = {}
        self.users = at_work(session.ledger, self._view)
        self._desktops = {row.vm_id for row in session.ledger.desktops() if row.vm_id}

    def cut_off(self, found: Moves) -> tuple[AtWork, ...]:
        """Who is cut off by these moves."""
        names = {move.vm for move in found.moves if move.cuts_off}
        return tuple(each for each in self.users.values() if each.vm in names)

    def run(self, allowed: Allowed) -> DefragPlan:
        """Anew without what a host refuses, until it refuses nothing."""
        known = residents(
            self._view,
            self._fleet,
            allowed=allowed,
            users=self.users,
            desktops=self._desktops,
        )
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
            before=self._before,
            after=share(bare, here, self._mix, moves) if moves else self._before,
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
        within = None if (name, resident.placed.host) in self._refused else resident.within
        if len(ways) == len(resident.ways) and within is resident.within:
            return resident
        stays = next(text for (vm, _), text in self._refused.items() if vm == name)
        return replace(resident, ways=ways, within=within, stays="" if ways or within else stays)

    def _refuses(self, moves: Iterable[Move]) -> bool:
        """Look at the hosts of each VM's first move: only there it is now, to be looked at."""
        before = len(self._refused)
        first = {move.vm: move for move in reversed([*moves])}
        for move in first.values():
            why = refusal(self._session, self._view, move)
            if why:
                self._refused[move.vm, move.target.host] = why
        return len(self._refused) > before
