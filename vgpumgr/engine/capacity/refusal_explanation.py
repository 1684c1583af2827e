"""`explain`: why a request fits nowhere and what would help, or where it would go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from vgpumgr.engine.desktops.booked_capacity import BOOKED
from vgpumgr.engine.inventory.host_supply import build_fleet
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.planning.automatic_layouts import marked, with_layouts_of
from vgpumgr.engine.planning.licence_limits import LICENCE, seats_raise_command
from vgpumgr.engine.planning.placement_limits import RESERVE
from vgpumgr.engine.planning.vm_admission import QUOTA, quota_raise_command
from vgpumgr.engine.whatif.alternatives import FleetChanges
from vgpumgr.model.apply_plan import Action, Plan, QueuedVm
from vgpumgr.model.errors import NotFound
from vgpumgr.model.history import RequestOutcome, RequestRecord
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.placement import Change, Explanation, NotPlaced, Placed, nearest_first
from vgpumgr.model.queue import QueueDecision, WaitReason
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement import FITS, Explainer
from vgpumgr.placement.whatif_suggestions import suggest

_BOOKINGS = "vgpumgr booking list"
# Of a bulk order, so many different refused requests get what would help: it takes a while.
_MOST_DIFFERENT = 3
# A VM that waits for one of these starts no sooner where there is more room.
_WITHHELD = frozenset({QUOTA, LICENCE, BOOKED, RESERVE})
_NOT_ROOM = frozenset({WaitReason.AFTER, WaitReason.NEVER, WaitReason.QUOTA, WaitReason.LICENCE})


def plan_explanations(
    view: LedgerView, plan: Plan, names: Collection[str] = ()
) -> tuple[Explanation, ...]:
    """The explanations of a plan's VMs (or of ``names``): the same as ``apply`` would give.

    Every VM is looked at with all VMs placed that the plan has places for.
    """
    of = _Explained(view, plan)
    known = {vm.name: vm.host for vm in view.vms}
    found = {each.vm.name: of.action(each) for each in plan.actions if _of(each.vm.name, names)}
    found |= {
        each.request.name: of.refused(each)
        for each in plan.unplaced
        if _of(each.request.name, names)
    }
    found |= {each.vm.name: of.waiting(each) for each in plan.waiting if _of(each.vm.name, names)}
    found |= {name: _there(name, known[name]) for name in plan.unchanged if _of(name, names)}
    return tuple(found.values())


def _of(name: str, names: Collection[str]) -> bool:
    return not names or name in names


class _Explained:
    """The VMs of one plan."""

    def __init__(self, view: LedgerView, plan: Plan) -> None:
        taken = [action.placed for action in plan.actions if action.placed]
        view = with_layouts_of(view, taken)
        fleet = build_fleet(view)
        self._fleet = Explainer(marked(view, fleet), taken)
        self._helps = _Helps(view, fleet, taken, most=_MOST_DIFFERENT)

    def action(self, action: Action) -> Explanation:
        """It goes somewhere, or is there already."""
        if action.placed is None:
            return _there(action.vm.name, action.host, ", ".join(action.details))
        reasons = self._fleet.of(action.placed.request, action.placed)
        return Explanation(vm=action.vm.name, host=action.host, reasons=reasons)

    def refused(self, refused: NotPlaced) -> Explanation:
        """It fits nowhere, or may not be where it would."""
        found = _explained(refused, self._helps)
        if not _withheld(refused):
            return found
        return replace(found, reasons=(*found.reasons, *self._fleet.of(refused.request)))

    def waiting(self, waiting: QueuedVm) -> Explanation:
        """It is in the queue, or would be."""
        where = f"{'would wait' if waiting.new else 'waits'} in the queue"
        said = f"{where}, position {waiting.position}: {waiting.why}"
        return _in_queue(waiting.vm, said, self._fleet, self._helps)


def _there(name: str, host: str, but: str = "") -> Explanation:
    return Explanation(
        vm=name, host=host, standing=f"is on {host} already{f': {but}' if but else ''}"
    )


def _in_queue(spec: VmSpec, said: str, fleet: Explainer, helps: _Helps) -> Explanation:
    reasons = fleet.of(spec)
    fits = any(each.code == FITS for each in reasons)
    changes = () if fits else helps.of(spec)
    return Explanation(vm=spec.name, host=None, reasons=reasons, changes=changes, standing=said)


def queue_explanation(view: LedgerView, turn: QueueDecision, name: str) -> Explanation:
    """Of a VM that waits: what the queue's next cycle would do with it, and what GPUs say now."""
    for start in turn.starts:
        if start.waiting.vm.name == name:
            host = start.placed.host
            text = f"waits in the queue, and starts in the next reconcile cycle, on {host}"
            return Explanation(vm=name, host=host, standing=text)
    fleet = build_fleet(view)
    explainer = Explainer(marked(view, fleet))
    for each in turn.waits:
        if each.waiting.vm.name == name:
            text = f"waits in the queue, position {each.position}: {each.text}"
            found = _in_queue(each.waiting.vm, text, explainer, _Helps(view, fleet))
            return replace(found, changes=()) if each.why in _NOT_ROOM else found
    return Explanation(vm=name, host=None, standing="waits in the queue, and is being stopped")


def refusal_explanations(view: LedgerView, plan: Plan, now: float) -> tuple[RequestRecord, ...]:
    """The explanations, as they are kept, of the requests that a plan refuses."""
    taken = [action.placed for action in plan.actions if action.placed]
    view = with_layouts_of(view, taken)
    helps = _Helps(view, build_fleet(view), taken, most=_MOST_DIFFERENT)
    kept: list[RequestRecord] = []
    before: NotPlaced | None = None
    for each in plan.unplaced:
        if before is not None and _alike(each, before):
            said = Explanation(vm=each.request.name, host=None, same_as=before.request.name)
        else:
            said, before = _explained(each, helps), each
        kept.append(
            RequestRecord(
                vm=said.vm,
                at=now,
                answer=RequestOutcome.REFUSED,
                spec=each.request,
                explanation=said,
            )
        )
    return tuple(kept)


def _explained(refused: NotPlaced, helps: _Helps) -> Explanation:
    changes = _allowing(refused) if _withheld(refused) else helps.of(refused.request)
    return Explanation(
        vm=refused.request.name,
        host=None,
        reasons=nearest_first(refused.reasons),
        changes=changes,
    )


def _withheld(refused: NotPlaced) -> bool:
    """Is there room, which the VM may not have?"""
    return bool(refused.reasons) and all(each.code in _WITHHELD for each in refused.reasons)


def _allowing(refused: NotPlaced) -> tuple[Change, ...]:
    """What lets a VM use the free capacity: a higher quota, a licence seat, a smaller reserve, no
    booking.
    """
    if refused.reasons[0].code == QUOTA:
        text = f"with a larger quota for tenant {refused.request.tenant}"
        return (Change(kind="quota", text=text, host="", next=quota_raise_command(refused)),)
    if refused.reasons[0].code == LICENCE:
        text = "with more licence seats"
        return (Change(kind="licence", text=text, host="", next=seats_raise_command(refused)),)
    if refused.reasons[0].code == RESERVE:
        text = "with one more host, or a smaller reserve"
        return (Change(kind="reserve", text=text, host="", next="vgpumgr simulate --fail-each"),)
    return (Change(kind="booking", text="without that booking", host="", next=_BOOKINGS),)


def _alike(one: NotPlaced, other: NotPlaced) -> bool:
    """Replicas that are refused together: what is said of a large fleet is not kept twice."""
    nameless = replace(one.request, name=other.request.name)
    return nameless == other.request and one.reasons == other.reasons


class _Helps:
    """Changes that would help refused requests, worked out once for equal requests."""

    def __init__(
        self,
        view: LedgerView,
        fleet: Fleet,
        taken: Sequence[Placed] = (),
        most: int | None = None,
    ) -> None:
        self._view = view
        self._fleet = fleet
        self._taken = taken
        self._most = most
        self._known: list[tuple[VmSpec, tuple[Change, ...]]] = []

    def of(self, spec: VmSpec) -> tuple[Change, ...]:
        nameless = replace(spec, name="")
        for known, changes in self._known:
            if known == nameless:
                return changes
        if len(self._known) == self._most:
            return ()
        ways = FleetChanges(self._view, self._fleet, spec).all
        changes = suggest(self._fleet, spec, ways, taken=self._taken)
        self._known.append((nameless, changes))
        return changes


def last_explanation(ledger: Ledger, name: str) -> Explanation:
    """The explanation of the last request for a VM of that name; NotFound where there was no
    request.
    """
    last = next(iter(ledger.requests(vm=name, limit=1)), None)
    if last is None:
        raise NotFound(
            f"no VM {name} was ever requested",
            next=f"vgpumgr explain -f FILE --vm {name}",
        )
    if last.explanation is not None:
        return _whole(ledger, last, last.explanation)
    host = next((vm.host for vm in ledger.vms() if vm.name == name), None)
    if host is None:
        raise NotFound(
            f"{name} was placed at its last request, and no longer exists",
            next=f"vgpumgr audit list --vm {name}",
        )
    return Explanation(vm=name, host=host)


def _whole(ledger: Ledger, request: RequestRecord, said: Explanation) -> Explanation:
    """With what was said of the VM that it was refused with."""
    if not said.same_as:
        return said
    others = ledger.requests(since=request.at, vm=said.same_as)
    found = (each.explanation for each in others if each.at == request.at)
    return next((replace(each, vm=said.vm) for each in found if each is not None), said)
