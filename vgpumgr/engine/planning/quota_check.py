"""Placements held to tenants' quotas, and the error for requests that fit nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vgpumgr.engine.inventory.host_supply import NOT_REACHED, NOT_READ
from vgpumgr.engine.inventory.ledger_view import LedgerView
from vgpumgr.model.errors import HostUnreachable, NoPlacement, QuotaExceeded, VgpumgrError
from vgpumgr.model.placement import (
    Change,
    Decision,
    NotPlaced,
    Placed,
    Reason,
    ReasonGroup,
    by_board,
)
from vgpumgr.model.quota import (
    Amount,
    Excess,
    excess_text,
    held_by_tenants,
    quota_command,
    quota_exceeded,
)
from vgpumgr.placement.queue.tenant_shares import amount_of

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


def no_placement(
    unplaced: Sequence[NotPlaced], most: int = 8, *, helps: Sequence[Change] = ()
) -> VgpumgrError:
    """One reason per rule and kind of GPU; unreachable hosts alone make it exit 6. Where a quota
    alone keeps one of them out, that is the reason: the rest may fit once it is raised.
    ``helps`` are changes that make the first one fit.
    """
    if quota := beyond_quota(unplaced):
        return quota
    first = unplaced[0]
    groups = _nearest(first.reasons)
    texts = [_text(group) for group in groups[:most]]
    rest = len(first.reasons) - sum(len(group.reasons) for group in groups[:most])
    lines = [*texts, *([f"and {rest} more GPUs or hosts"] if rest > 0 else [])]
    lines += [f"it fits {change.words}" for change in helps[:1]]
    others = f" and {len(unplaced) - 1} more" if len(unplaced) > 1 else ""
    unread = bool(first.reasons) and all(_unread(reason) for reason in first.reasons)
    kind = HostUnreachable if unread else NoPlacement
    return kind(
        f"{first.request.name}{others} cannot be placed",
        why="; ".join(lines) or "no host is enrolled",
        next="vgpumgr doctor" if unread else f"vgpumgr explain -f FILE --vm {first.request.name}",
    )


def _nearest(reasons: Sequence[Reason]) -> list[ReasonGroup]:
    """The far ones only where all are far."""
    groups = by_board(reasons)
    return [group for group in groups if not group.far] or list(groups)


def _text(group: ReasonGroup) -> str:
    """The sentence of a GPU names no host: PCI addresses repeat on every one."""
    nearest = group.nearest
    named = not nearest.host or nearest.host in nearest.text.replace(",", " ").split()
    text = nearest.text if named and not nearest.gpu else f"{nearest.host}: {nearest.text}"
    return f"{text} (and {group.others})" if group.others else text


def _unread(reason: Reason) -> bool:
    return any(words in reason.text for words in (NOT_REACHED, NOT_READ))
