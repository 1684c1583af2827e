"""Placements held to the quotas of their tenants, before the ledger holds them to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.engine.view import LedgerView
from vgpumgr.model.errors import QuotaExceeded
from vgpumgr.model.holding import excess_text, held_by_tenants, quota_command, quota_exceeded
from vgpumgr.model.placement import Decision, NotPlaced, Placed, Reason
from vgpumgr.model.quota import Amount, Excess
from vgpumgr.placement.queue import amount_of

QUOTA = "quota"


def within_quotas(view: LedgerView, decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions, in their order; a placement that its tenant may not have is refused."""
    limits = {each.tenant: each for each in view.quotas}
    if not limits:
        return list(decisions)
    used = held_by_tenants(view.vms, view.allocations, view.gpus)
    held: list[Decision] = []
    for each in decisions:
        tenant = each.request.tenant
        if isinstance(each, Placed) and tenant in limits:
            before, asked = used.get(tenant, Amount()), amount_of(each)
            if found := limits[tenant].exceeded_by(before, asked):
                held.append(NotPlaced(request=each.request, reasons=tuple(map(_reason, found))))
                continue
            used[tenant] = before + asked
        held.append(each)
    return held


def allowing(refused: NotPlaced) -> str:
    """What to type to let the tenant have a VM that its quota refuses."""
    return quota_command([_excess(reason) for reason in refused.reasons])


def beyond_quota(unplaced: Iterable[NotPlaced]) -> QuotaExceeded | None:
    """The error for the first that its quota alone refuses; None where there is none."""
    for each in unplaced:
        if each.reasons and all(reason.code == QUOTA for reason in each.reasons):
            error = quota_exceeded([_excess(reason) for reason in each.reasons])
            error.message = f"{each.request.name} cannot be placed: {error.message}"
            return error
    return None


def _reason(found: Excess) -> Reason:
    facts: dict[str, int | str] = {
        "tenant": found.tenant,
        "limit": found.limit,
        "used": found.used,
        "asked": found.asked,
        "allowed": found.allowed,
    }
    return Reason(code=QUOTA, host="", text=excess_text(found), facts=facts)


def _excess(reason: Reason) -> Excess:
    facts = reason.facts
    return Excess(
        tenant=str(facts["tenant"]),
        limit=str(facts["limit"]),
        used=int(facts["used"]),
        asked=int(facts["asked"]),
        allowed=int(facts["allowed"]),
    )
