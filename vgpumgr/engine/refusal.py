"""The error for requests that fit nowhere: the reasons nearest to a yes first."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.engine.supply import NOT_REACHED, NOT_READ
from vgpumgr.model.errors import HostUnreachable, NoPlacement, VgpumgrError
from vgpumgr.model.placement import NotPlaced, Reason

# GPUs that could never make it say least about why it does not fit.
_FAR = frozenset({"profile", "model"})


def no_placement(unplaced: Sequence[NotPlaced], most: int = 8) -> VgpumgrError:
    """One reason per kind of GPU and host; unreachable hosts alone make it exit 6."""
    first = unplaced[0]
    groups = _groups(first.reasons)
    texts = [_text(group) for group in groups[:most]]
    rest = sum(len(group) for group in groups[most:])
    lines = [*texts, *([f"and {rest} more GPUs or hosts"] if rest > 0 else [])]
    others = f" and {len(unplaced) - 1} more" if len(unplaced) > 1 else ""
    unread = bool(first.reasons) and all(_unread(reason) for reason in first.reasons)
    kind = HostUnreachable if unread else NoPlacement
    return kind(
        f"{first.request.name}{others} cannot be placed",
        why="; ".join(lines) or "no host is enrolled",
        next="vgpumgr doctor" if unread else f"vgpumgr explain -f FILE --vm {first.request.name}",
    )


def _groups(reasons: Sequence[Reason]) -> list[list[Reason]]:
    """Alike reasons of a host together, far ones last; otherwise in the fleet's order."""
    found: dict[tuple[str, str, str], list[Reason]] = {}
    for reason in reasons:
        found.setdefault((reason.host, reason.code, reason.model), []).append(reason)
    return sorted(found.values(), key=lambda group: group[0].code in _FAR)


def _text(group: Sequence[Reason]) -> str:
    """The sentence of a GPU names no host: PCI addresses repeat on every one."""
    reason, more = group[0], len(group) - 1
    text = reason.text if reason.host in reason.text else f"{reason.host}: {reason.text}"
    return f"{text} (and {more} more there alike)" if more else text


def _unread(reason: Reason) -> bool:
    return any(words in reason.text for words in (NOT_REACHED, NOT_READ))
