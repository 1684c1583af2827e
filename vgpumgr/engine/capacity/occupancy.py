"""Slots held over time: what allocations held on average, span by span."""

from __future__ import annotations

from collections.abc import Iterable

from vgpumgr.model.history import Holding


def occupancy(
    holdings: Iterable[Holding], begin: float, end: float, spans: int
) -> tuple[float, ...]:
    """The slots that were held on average in each of ``spans`` equal spans from ``begin`` to
    ``end`` (Unix seconds).
    """
    long = (end - begin) / spans
    changes = [0.0] * (spans + 1)
    parts = [0.0] * spans
    for each in holdings:
        since = max(each.since, begin)
        until = min(end if each.until is None else each.until, end)
        if until <= since:
            continue
        first = min(int((since - begin) / long), spans - 1)
        last = min(int((until - begin) / long), spans - 1)
        if first == last:
            parts[first] += each.units * (until - since) / long
            continue
        parts[first] += each.units * (begin + (first + 1) * long - since) / long
        parts[last] += each.units * (until - begin - last * long) / long
        changes[first + 1] += each.units
        changes[last] -= each.units
    held, found = 0.0, []
    for span in range(spans):
        held += changes[span]
        found.append(round(held + parts[span], 3))
    return tuple(found)
