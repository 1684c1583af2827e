"""Moves that reach a goal: a whole GPU empty, a request that fits, or less fragmentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.capacity.fragmentation_gauge import FragmentationMeasure
from vgpumgr.engine.defrag.movable_vms import AllowedMoves, residents
from vgpumgr.engine.desktops.user_sessions import UserAtWork, at_work
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration import move_plan_maker, move_reads
from vgpumgr.engine.operations.engine_context import EngineContext
from vgpumgr.model.defrag import DefragGoal, DefragMoves, EmptyGpus, NoDefragMoves, Resident, VmMove
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.placement import Placed
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.defrag.fleet_without import one_by_one, without
from vgpumgr.placement.defrag.move_search import MovePlanner, plan_moves


def refusal(context: EngineContext, view: LedgerView, move: VmMove) -> str:
    """The first check that the VM's migration there fails; "" where it passes all.

    Room is not asked for: others may have to leave first. A move within its host needs no other.
    """
    if move.within:
        return ""
    vm = next(each for each in view.vms if each.name == move.vm)
    to = next(each for each in view.hosts if each.name == move.target.host)
    try:
        looks = move_reads.look(vm, context.host(vm.host), context.host(to.name), to)
    except VgpumgrError as error:
        return f"{move.vm} to {to.name}: {error.message}"
    checks = move_plan_maker.failed_checks(view, vm, to, looks, move.target, cold=move.way.stops)
    failed = next(checks, None)
    return f"{move.vm} to {to.name}: {failed.text}" if failed else ""


class SharesAfterMoves:
    """The share of free GPU memory that is of no use to the mix, now and after moves."""

    def __init__(self, bare: Fleet, residents: Sequence[Resident], mix: Mix | None) -> None:
        self._bare = bare
        self._mix = mix
        self._homes = {each.placed.request.name: each.placed for each in residents}
        self._placer = self._placed(self._homes)

    def now(self) -> float:
        """With every resident where it is."""
        return self._placer.fragmentation().share

    def after(self, moves: Iterable[VmMove]) -> float:
        """With the residents where these moves bring them."""
        to = {move.vm: move.target for move in moves}
        if any(map(_in_instance, (*to.values(), *(self._homes[name] for name in to)))):
            # Others may live in the GPU instance that one of them made.
            return self._placed(self._homes | to).fragmentation().share
        homes = {name: self._homes[name] for name in to}
        self._replace(homes, to)
        found = self.now()
        self._replace(to, homes)
        return found

    def _placed(self, at: Mapping[str, Placed]) -> Placer:
        placer = Placer(self._bare, PlacementPolicy.CAPACITY_FIRST, mix=self._mix)
        for placed in one_by_one(self._bare, at.values()):
            placer.commit(placed)
        return placer

    def _replace(self, before: Mapping[str, Placed], after: Mapping[str, Placed]) -> None:
        for placed in before.values():
            self._placer.release(placed)
        for placed in after.values():
            self._placer.commit(placed)


def _in_instance(placed: Placed) -> bool:
    return any(part.offer.instance is not None for part in placed.assignments)


_LARGE = 1_000
"""GPUs of a fleet in which every number of empty ones is tried, at most."""
_SINGLY = 16
"""Numbers that are tried one by one in a larger fleet."""


def lower(
    bare: Fleet,
    residents: Sequence[Resident],
    mix: Mix | None,
    enough: float,
    *,
    most: int | None = None,
) -> DefragMoves | NoDefragMoves:
    """The moves, at most ``most``, that empty as few GPUs as lower the fragmentation to ``enough``.

    Where no moves do, the moves that lower it furthest; NoMoves where nothing lowers it. In a fleet
    of more than 1,000 GPUs every number up to 16 more is tried; a larger one is found by doubling
    and halving, as if each GPU more that is empty lowers it further.
    """
    trial = _Emptying(bare, residents, mix, most)
    few, many = _empty_now(bare, residents), None
    step, large = 1, sum(len(host.gpus) for host in bare.hosts) > _LARGE
    while trial.least > enough and (many is None or many - few > 1):
        number = few + step if many is None else (few + many) // 2
        if trial.empty(number) is None:
            many = number
            continue
        if trial.least <= enough:
            return trial.fewest(few, number, enough)
        few = number
        step *= 2 if large and trial.tries >= _SINGLY else 1
    return trial.best if trial.best.moves or trial.refusal is None else trial.refusal


class _Emptying:
    """Moves for numbers of empty GPUs: ``best`` lower the share furthest so far, to ``least``."""

    def __init__(
        self, bare: Fleet, residents: Sequence[Resident], mix: Mix | None, most: int | None
    ) -> None:
        self._planner = MovePlanner(bare, residents)
        self._shares = SharesAfterMoves(bare, residents, mix)
        self._most = most
        self.best, self.least = DefragMoves(), self._shares.now()
        self.refusal: NoDefragMoves | None = None
        self.tries = 0

    def empty(self, gpus: int) -> tuple[DefragMoves, float] | None:
        """The moves that empty so many, and the share after them; None where none do."""
        self.tries += 1
        found = self._planner.plan(EmptyGpus(gpus=gpus), most=self._most)
        if isinstance(found, NoDefragMoves):
            self.refusal = self.refusal or found
            return None
        share = self._shares.after(found.moves)
        if share < self.least:
            self.best, self.least = found, share
        return found, share

    def fewest(self, few: int, many: int, enough: float) -> DefragMoves:
        """``many`` do and ``few`` do not: the moves for the fewest between them that do."""
        best = self.best
        while many - few > 1:
            middle = (few + many) // 2
            tried = self.empty(middle)
            if tried is not None and tried[1] <= enough:
                best, many = tried[0], middle
            else:
                few = middle
        return best


def _empty_now(bare: Fleet, residents: Sequence[Resident]) -> int:
    taken = {part.gpu for each in residents for part in each.placed.assignments}
    return sum(
        not gpu.usages and gpu.id not in taken and not gpu.blocked
        for host in bare.hosts
        for gpu in host.gpus
    )


# How often moves are looked for anew because a host would refuse one.
_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragRequest:
    """A request for defragmentation.

    ``goal`` None: at most ``share`` of the free GPU memory is of no use. ``cold``: a running VM may
    be stopped for its move, ``with_users`` even where that cuts a user off; ``at_logoff``: desktops
    may be stopped while no user is at work on them. ``most`` moves are allowed.
    """

    goal: DefragGoal | None = None
    share: float = 0.3
    cold: bool = False
    with_users: bool = False
    at_logoff: bool = False
    most: int | None = None

    @property
    def allowed(self) -> AllowedMoves:
        """The moves of running VMs that the request allows."""
        return AllowedMoves(cold=self.cold, with_users=self.with_users, at_logoff=self.at_logoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragPlan:
    """A plan of moves. ``before`` and ``after`` are shares of free GPU memory that is of no use.

    ``colder`` is the number of moves that would do if running VMs might be stopped, where only cold
    moves reach the goal; ``users`` are the users that such a plan would cut off, where only such a
    plan reaches it. ``refused`` names the VMs that a host would not take, and why.
    """

    wanted: DefragRequest
    found: DefragMoves | NoDefragMoves
    before: float
    after: float
    colder: int | None = None
    users: tuple[UserAtWork, ...] = ()
    refused: tuple[str, ...] = ()


def find(context: EngineContext, wanted: DefragRequest) -> DefragPlan:
    """By the last observation, and a look at the hosts of every VM that would move."""
    finding = _Finding(context, wanted)
    plan = finding.run(wanted.allowed)
    if isinstance(plan.found, DefragMoves) or wanted.with_users:
        return plan
    if not wanted.cold:
        other = finding.run(replace(wanted.allowed, cold=True)).found
        return replace(plan, colder=len(other.moves) if isinstance(other, DefragMoves) else None)
    if not finding.users:
        return plan
    other = finding.run(AllowedMoves(cold=True, with_users=True)).found
    return replace(plan, users=finding.cut_off(other) if isinstance(other, DefragMoves) else ())


class _Finding:
    def __init__(self, context: EngineContext, wanted: DefragRequest) -> None:
        self._context = context
        self._wanted = wanted
        self._view = context.view()
        self._fleet = build_fleet(self._view)
        now = context.clock.now()
        gauging = FragmentationMeasure(self._fleet, context.expected, context.ledger, now)
        self._mix, self._before = gauging.mix, gauging.gauge().share
        self._refused: dict[tuple[str, str], str] = {}
        self.users = at_work(context.ledger, self._view)
        self._desktops = {row.vm_id for row in context.ledger.desktops() if row.vm_id}

    def cut_off(self, found: DefragMoves) -> tuple[UserAtWork, ...]:
        """The users that these moves cut off."""
        names = {move.vm for move in found.moves if move.cuts_off}
        return tuple(each for each in self.users.values() if each.vm in names)

    def run(self, allowed: AllowedMoves) -> DefragPlan:
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
            if isinstance(found, NoDefragMoves) or not self._refuses(found.moves):
                break
        moves = found.moves if isinstance(found, DefragMoves) else ()
        return DefragPlan(
            wanted=self._wanted,
            found=found,
            before=self._before,
            after=SharesAfterMoves(bare, here, self._mix).after(moves) if moves else self._before,
            refused=tuple(self._refused.values()),
        )

    def _found(self, bare: Fleet, here: list[Resident]) -> DefragMoves | NoDefragMoves:
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

    def _refuses(self, moves: Iterable[VmMove]) -> bool:
        """Look at the hosts of each VM's first move: only there it is now, to be looked at."""
        before = len(self._refused)
        first = {move.vm: move for move in reversed([*moves])}
        for move in first.values():
            why = refusal(self._context, self._view, move)
            if why:
                self._refused[move.vm, move.target.host] = why
        return len(self._refused) > before
