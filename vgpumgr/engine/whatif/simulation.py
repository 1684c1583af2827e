"""`simulate`: a changed fleet, and the requests that find a place in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.operations.expected_requests import PlaceFunction
from vgpumgr.engine.planning.failover_check import FailoverCheck
from vgpumgr.engine.planning.licence_limits import within_seats
from vgpumgr.engine.planning.placement_limits import makes_none
from vgpumgr.engine.planning.vm_admission import within_quotas
from vgpumgr.engine.whatif.hypothetical_hosts import AddedHosts, HostOption, view_without_vms
from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.model.failover import NO_RESERVE, FailoverReserve, HostLoss
from vgpumgr.model.host import HostRecord
from vgpumgr.model.placement import Decision, NotPlaced, Placed
from vgpumgr.model.vm import VmRecord, VmSpec, VmState

_FAILED = "it failed (simulated)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposition:
    """The supposed changes: requested VMs, failing hosts, new hosts, deleted VMs; and then, with a
    ``reserve``, the loss of any hosts that it speaks of.
    """

    asked: tuple[VmSpec, ...] = ()
    added: tuple[AddedHosts, ...] = ()
    failed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    reserve: FailoverReserve = NO_RESERVE


@dataclass(frozen=True, slots=True, kw_only=True)
class VmFate:
    """The fate of one VM: its former host (empty: it is new), and placement's decision."""

    was_on: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """``fates`` of VMs whose host fails, then of requested VMs; ``added`` are the new hosts by
    name, with the partitioning that their GPUs would need. ``kept`` are VMs of failed hosts that
    cannot be recreated elsewhere, with the reason. ``losses`` is what each loss would come to then.
    """

    fates: tuple[VmFate, ...]
    added: tuple[tuple[str, str], ...] = ()
    kept: tuple[tuple[VmRecord, str], ...] = ()
    removed: tuple[VmRecord, ...] = ()
    losses: tuple[HostLoss, ...] = ()

    @property
    def homeless(self) -> int:
        """How many VMs have no place; with losses, the sum over them."""
        lost = sum(isinstance(fate.decision, NotPlaced) for fate in self.fates)
        return lost + len(self.kept) + sum(len(each.homeless) for each in self.losses)


def simulate(view: LedgerView, supposed: Supposition, place: PlaceFunction) -> Simulation:
    """Nothing is changed. NotFound for a host or VM that is not there."""
    _require(supposed.failed, [host.name for host in view.hosts], "host")
    _require(supposed.removed, [vm.name for vm in view.vms], "vm")
    removed = tuple(vm for vm in view.vms if vm.name in supposed.removed)
    left = view_without_vms(view, set(supposed.removed))
    lost = [vm for vm in left.vms if vm.host in supposed.failed]
    kept = tuple((vm, why) for vm in lost if (why := _kept(vm)))
    moving = [vm for vm in lost if not _kept(vm)]
    rest = _without_hosts(view_without_vms(left, {vm.name for vm in lost}), supposed.failed)
    wanted = [*(vm.spec for vm in moving), *supposed.asked]
    chosen: list[tuple[str, str]] = []
    for added in supposed.added:
        rest, option = _best(rest, added, wanted, place)
        chosen += [(host.name, option.text) for host in option.hosts]
    decisions = _decide(rest, wanted, place)
    origins = [*(vm.host for vm in moving), *("" for _ in supposed.asked)]
    fates = (
        VmFate(was_on=was, decision=each) for was, each in zip(origins, decisions, strict=True)
    )
    return Simulation(
        fates=tuple(fates),
        added=tuple(chosen),
        kept=kept,
        removed=removed,
        losses=_losses(rest, decisions, supposed.reserve),
    )


def _losses(
    view: LedgerView, decisions: Sequence[Decision], reserve: FailoverReserve
) -> tuple[HostLoss, ...]:
    """What each loss would come to once these VMs are there."""
    if not reserve.hosts:
        return ()
    check = FailoverCheck(view, reserve)
    placed = [each for each in decisions if isinstance(each, Placed)]
    for each in sorted(placed, key=makes_none):
        check.add(each)
    return tuple(check.losses())


def _decide(view: LedgerView, wanted: Sequence[VmSpec], place: PlaceFunction) -> list[Decision]:
    """By room alone: copies of disk images are taken to be wherever they are needed."""
    view = replace(view, images=())
    return within_seats(view, within_quotas(view, place(build_fleet(view), wanted)))


def _best(
    view: LedgerView, added: AddedHosts, wanted: Sequence[VmSpec], place: PlaceFunction
) -> tuple[LedgerView, HostOption]:
    """New hosts partitioned so that most VMs find a place; the first way where that is equal."""
    tried = [(_with(view, option), option) for option in added.options]
    if len(tried) == 1:
        return tried[0]

    def placed(each: tuple[LedgerView, HostOption]) -> int:
        return sum(isinstance(decision, Placed) for decision in _decide(each[0], wanted, place))

    return max(tried, key=placed)


def _with(view: LedgerView, option: HostOption) -> LedgerView:
    known = {host.name for host in view.hosts}
    taken = next((host.name for host in option.hosts if host.name in known), None)
    if taken is not None:
        raise UsageError(
            f"a new host cannot be named {taken}: that host exists", next="choose another name"
        )
    return replace(view, hosts=(*view.hosts, *option.hosts), gpus=(*view.gpus, *option.gpus))


def _without_hosts(view: LedgerView, failed: Sequence[str]) -> LedgerView:
    def failing(host: HostRecord) -> HostRecord:
        return replace(host, last_error=_FAILED) if host.name in failed else host

    return replace(view, hosts=tuple(map(failing, view.hosts)))


def _kept(vm: VmRecord) -> str:
    if vm.state not in (VmState.ACTIVE, VmState.SHELVED):
        return f"it is {vm.state}: an operation on it is not finished"
    if vm.definition:
        return "it was adopted: only its own definition says what it needs there"
    return ""


def _require(names: Sequence[str], known: Sequence[str], noun: str) -> None:
    for name in names:
        if name not in known:
            raise NotFound(f"there is no {noun} {name}", next=f"vgpumgr {noun} list")
