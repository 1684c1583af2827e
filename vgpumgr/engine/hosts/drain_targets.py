"""The target host of each VM of a host that is drained."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from vgpumgr.engine.desktops.user_sessions import AtWork
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.migration import move_plan, move_reservation
from vgpumgr.engine.migration.move_plan import Check, MovePlan
from vgpumgr.engine.migration.move_planning import wanted
from vgpumgr.engine.operations.engine_context import Place
from vgpumgr.engine.operations.new_operation import Opening
from vgpumgr.engine.planning.quota_check import no_placement
from vgpumgr.engine.planning.vm_plan import reached
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.placement import NotPlaced
from vgpumgr.model.vm import VmRecord


def after(view: LedgerView, plan: move_plan.MovePlan, opening: Opening) -> LedgerView:
    """The VM on its target, and what it takes there, beside what it holds now."""
    start = move_reservation.reservation(plan, view, opening)
    changed = {vm.id: vm for vm in start.changed_vms}
    return replace(
        view,
        vms=tuple(changed.get(vm.id, vm) for vm in view.vms),
        allocations=(*view.allocations, *start.allocations),
    )


# (host, cold) → the plan of a move there; raises what keeps it from being planned.
Planner = Callable[[str, bool], tuple[MovePlan, LedgerView]]

# Where a check is about the VM alone, no other host passes it.
_OF_THE_VM = frozenset({"framework", "power", "users"})
_MOST_TRIES = 8


@dataclass(frozen=True, slots=True)
class Choice:
    """The move of a VM, with the view it was planned from; or why there is none. ``leaves``: it
    will go by itself. ``user`` is at work on it; with ``cut_off`` that alone keeps it there.
    """

    vm: VmRecord
    move: tuple[MovePlan, LedgerView] | None = None
    why: str = ""
    next: str = ""
    leaves: bool = False
    user: AtWork | None = None
    cut_off: bool = False


def choose(
    view: LedgerView,
    vm: VmRecord,
    hosts: Collection[str],
    place: Place,
    plan: Planner,
    *,
    cold: bool,
    user: AtWork | None = None,
) -> Choice:
    """Live to the best of ``hosts`` that takes it; with ``cold`` cold where no host does so.

    A VM that is off moves either way. The refusal is that of the way that was asked for; ``user``
    is at work on it.
    """
    found = _chosen(view, vm, hosts, place, plan, cold=cold)
    return replace(found, user=user) if user is not None else found


def _chosen(
    view: LedgerView,
    vm: VmRecord,
    hosts: Collection[str],
    place: Place,
    plan: Planner,
    *,
    cold: bool,
) -> Choice:
    runs = (vm.host, vm.name) in reached(view).running
    search = _Search(view, vm, hosts, place, plan)
    found = search.run(cold=False, live=runs)
    if found.move is not None or not runs:
        return found
    colder = search.run(cold=True, live=False)
    if cold:
        return colder
    if colder.move is not None:
        return replace(found, next=f"vgpumgr host drain {vm.host} --cold   (it is stopped for it)")
    return found


@dataclass(slots=True)
class _Search:
    view: LedgerView
    vm: VmRecord
    hosts: Collection[str]
    place: Place
    plan: Planner
    refused: dict[str, str] = field(default_factory=dict)

    def run(self, *, cold: bool, live: bool) -> Choice:
        """Placement's best first; a host that fails a check is left out of the next try."""
        self.refused = {}
        first: Check | VgpumgrError | None = None
        while len(self.refused) < _MOST_TRIES:
            target = self._best(live=live)
            if isinstance(target, Choice):
                return self._none(first) if first else target
            failed = self._try(target, cold=cold)
            if isinstance(failed, Choice):
                return failed
            first = first or failed
            if isinstance(failed, Check) and failed.name in _OF_THE_VM:
                break
        return self._none(first)

    def _best(self, *, live: bool) -> str | Choice:
        own = self.vm.spec.affinity.hosts
        left = [h for h in self.hosts if h not in self.refused and (not own or h in own)]
        if not left:
            why = f"its affinity allows only {', '.join(own)}" if own else "no other host"
            return Choice(self.vm, why=why, next="vgpumgr host list")
        held = [each for each in self.view.allocations if each.vm_id == self.vm.id]
        request = wanted(self.view, self.vm.spec, held, "", live=live)
        request = replace(request, affinity=replace(request.affinity, hosts=tuple(left)))
        rest = replace(self.view, vms=tuple(v for v in self.view.vms if v.id != self.vm.id))
        [decision] = self.place(build_fleet(rest), [request])
        if isinstance(decision, NotPlaced):
            error = no_placement([decision])
            explain = "vgpumgr map, vgpumgr capacity: free capacity, then the same command again"
            return Choice(self.vm, why=error.why, next=explain)
        return decision.host

    def _try(self, target: str, *, cold: bool) -> Choice | Check | VgpumgrError:
        try:
            move = self.plan(target, cold)
        except VgpumgrError as error:
            self.refused[target] = error.message
            return error
        failed = next((check for check in move[0].checks if not check.holds), None)
        if failed is None:
            return Choice(self.vm, move)
        self.refused[target] = failed.text
        return failed

    def _none(self, first: Check | VgpumgrError | None) -> Choice:
        """Why each host that was tried refuses, alike ones once."""
        why = "; ".join(dict.fromkeys(self.refused.values()))
        if isinstance(first, Check) and first.name == "users":
            again = f"vgpumgr host drain {self.vm.host} --cold --with-users, or --logoff-within 4h"
            return Choice(self.vm, why=why, next=again, cut_off=True)
        return Choice(self.vm, why=why, next=(first.next if first else "") or "vgpumgr map")
