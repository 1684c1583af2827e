"""What a placement that would fit may still not have: more than a quota, a licence seat, the
failover reserve, or power. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.engine.inventory.planned_power import PlannedPower
from vgpumgr.engine.planning.automatic_layouts import with_layouts_of
from vgpumgr.engine.planning.failover_check import FailoverCheck
from vgpumgr.engine.planning.licence_limits import within_seats
from vgpumgr.engine.planning.vm_admission import within_quotas
from vgpumgr.model.failover import HostLoss
from vgpumgr.model.formats import counted, spanned
from vgpumgr.model.placement import Decision, NotPlaced, Placed, Reason

RESERVE, POWER = "reserve", "power"


def within_limits(view: LedgerView, decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions, in their order; a placement that a quota, the licence seats, the
    reserve or a power budget forbids is refused.
    """
    found = _within_reserve(view, within_seats(view, within_quotas(view, decisions)))
    return _within_power(view, found)


def _within_power(view: LedgerView, decisions: list[Decision]) -> list[Decision]:
    """One by one: a placement with which a power budget would be exceeded is refused."""
    if not view.budgets:
        return decisions
    plan, found = PlannedPower(view), list(decisions)
    for number, each in enumerate(decisions):
        if not isinstance(each, Placed):
            continue
        gpus = [part.gpu for part in each.assignments]
        exceeded = plan.exceeded(gpus)
        if exceeded is None:
            plan.add(gpus)
            continue
        budget, watts = exceeded
        reason = Reason(
            code=POWER,
            host=each.host,
            text=plan.refusal(budget, watts),
            facts={"budget": budget.name, "watts": budget.watts, "more": watts},
        )
        found[number] = NotPlaced(request=each.request, reasons=(reason,))
    return found


def _within_reserve(view: LedgerView, decisions: list[Decision]) -> list[Decision]:
    """All at once where the reserve holds with all of them; else one by one."""
    placed = sorted((each for each in decisions if isinstance(each, Placed)), key=makes_none)
    if not view.reserve.hosts or not placed:
        return decisions
    cut = [each for each in placed if each.partitions]
    check = FailoverCheck(with_layouts_of(view, cut), view.reserve)
    check.keep_what_holds()
    for each in placed:
        check.add(each)
    if check.shortfall() is None:
        return decisions
    for each in reversed(placed):
        check.remove(each)
    refused = dict(_refusals(check, placed))
    return [refused.get(each.request.name, each) for each in decisions]


def makes_none(placed: Placed) -> bool:
    """Makes it no GPU instance? Others may be in what one before them makes."""
    return not any(part.make_instance for part in placed.assignments)


def _refusals(check: FailoverCheck, placed: Sequence[Placed]) -> Iterator[tuple[str, NotPlaced]]:
    """The VMs, by name, with which the reserve would not hold; the others count from then on."""
    unmade: dict[tuple[str, int | None], Reason] = {}
    for each in placed:
        inside = [part for part in each.assignments if not part.make_instance]
        reason = next((r for p in inside if (r := unmade.get((p.gpu, p.start)))), None)
        if reason is None:
            check.add(each)
            loss = check.shortfall()
            if loss is None:
                continue
            check.remove(each)
            reason = reserve_reason(loss)
        for part in each.assignments:
            if part.make_instance:
                unmade[part.gpu, part.start] = reason
        yield each.request.name, NotPlaced(request=each.request, reasons=(reason,))


def reserve_reason(loss: HostLoss) -> Reason:
    """The reason by the loss that the fleet would not survive."""
    return Reason(
        code=RESERVE,
        host="",
        text=f"the failover reserve would not hold: {shortfall_text(loss)}",
        facts={"lost": ", ".join(loss.hosts), "homeless": len(loss.homeless)},
    )


def shortfall_text(loss: HostLoss) -> str:
    """``if h1 were lost, 2 of its 8 VMs would have no place (a, b)``."""
    whose = "its" if len(loss.hosts) == 1 else "their"
    return (
        f"if {' and '.join(loss.hosts)} were lost, {len(loss.homeless)} of {whose} "
        f"{counted(loss.vms, 'VM')} would have no place ({spanned(loss.homeless)})"
    )
