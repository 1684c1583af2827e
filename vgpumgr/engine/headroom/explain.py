"""Why a request does not fit and what would help, or where it would go; only `said` reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpumgr.engine.booking import kept_from
from vgpumgr.engine.images.resolving import resolved
from vgpumgr.engine.outlook import Place
from vgpumgr.engine.planning.quotas import QUOTA
from vgpumgr.engine.supply import build_fleet
from vgpumgr.engine.view import LedgerView
from vgpumgr.engine.whatif.ways import Ways
from vgpumgr.model.errors import NotFound
from vgpumgr.model.explanation import Change, Explanation
from vgpumgr.model.history import Answer, RequestRecord
from vgpumgr.model.placement import Fleet, NotPlaced, Placed
from vgpumgr.model.plan import Plan
from vgpumgr.model.ports import Ledger
from vgpumgr.model.vm import VmSpec
from vgpumgr.placement import explain as reasons
from vgpumgr.placement.whatif import suggest

# Of a bulk order, so many different refused requests get what would help: it takes a while.
_MOST_DIFFERENT = 3


def explain(view: LedgerView, specs: Sequence[VmSpec], place: Place) -> tuple[Explanation, ...]:
    """Each VM on its own, as if it were asked for now."""
    fleet = build_fleet(view)
    helps = _Helps(view, fleet)
    found = []
    for spec in resolved(specs, view.images):
        [decision] = place(fleet, [spec])
        booked = kept_from(decision)
        helped = isinstance(decision, Placed) or bool(booked)
        found.append(
            Explanation(
                vm=spec.name,
                host=decision.host if isinstance(decision, Placed) else None,
                reasons=(*booked, *reasons(fleet, spec)),
                changes=() if helped else helps.of(spec),
            )
        )
    return tuple(found)


def refused(view: LedgerView, plan: Plan, now: float) -> tuple[RequestRecord, ...]:
    """What is kept of the requests that a plan has no room for, beside those it has room for."""
    taken = [action.placed for action in plan.actions if action.placed]
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
                vm=said.vm, at=now, answer=Answer.REFUSED, spec=each.request, explanation=said
            )
        )
    return tuple(kept)


def _explained(refused: NotPlaced, helps: _Helps) -> Explanation:
    by_quota = all(each.code == QUOTA for each in refused.reasons) and bool(refused.reasons)
    return Explanation(
        vm=refused.request.name,
        host=None,
        reasons=refused.reasons,
        changes=() if by_quota else helps.of(refused.request),
    )


def _alike(one: NotPlaced, other: NotPlaced) -> bool:
    """Replicas that are refused together: what is said of a large fleet is not kept twice."""
    nameless = replace(one.request, name=other.request.name)
    return nameless == other.request and one.reasons == other.reasons


class _Helps:
    """What would help requests, worked out once for those that are alike."""

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
        ways = Ways(self._view, self._fleet, spec).all
        changes = suggest(self._fleet, spec, ways, taken=self._taken)
        self._known.append((nameless, changes))
        return changes


def said(ledger: Ledger, name: str) -> Explanation:
    """What was said when a VM of that name was asked for last. NotFound where none ever was."""
    last = next(iter(ledger.requests(vm=name, limit=1)), None)
    if last is None:
        raise NotFound(
            f"no VM {name} was ever asked for",
            next=f"vgpumgr explain -f FILE --vm {name}",
        )
    if last.explanation is not None:
        return _whole(ledger, last, last.explanation)
    host = next((vm.host for vm in ledger.vms() if vm.name == name), None)
    if host is None:
        raise NotFound(
            f"{name} was placed when it was asked for last, and is there no more",
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
