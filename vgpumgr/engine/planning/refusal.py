"""The error for requests that fit nowhere: the reasons nearest to a yes first."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.planning.quotas import beyond_quota
from vgpumgr.engine.supply import NOT_REACHED, NOT_READ
from vgpumgr.model.errors import HostUnreachable, NoPlacement, VgpumgrError
from vgpumgr.model.explanation import Change
from vgpumgr.model.placement import NotPlaced, Reason, ReasonGroup, by_board


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
    others = f" and {len(unplaced) - 1} more" if len(unplaced) > 1 else ""
    unread = bool(first.reasons) and all(_unread(reason) for reason in first.reasons)
    kind = HostUnreachable if unread else NoPlacement
    return kind(
        f"{first.request.name}{others} cannot be placed",
        why="; ".join(lines) or "no host is enrolled",
        next="vgpumgr doctor" if unread else _next(first, helps),
    )


def _next(refused: NotPlaced, helps: Sequence[Change]) -> str:
    explain = f"vgpumgr explain -f FILE --vm {refused.request.name}"
    return explain + (f"   (it fits {helps[0].words})" if helps else "")


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
