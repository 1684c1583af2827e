"""Sets of slots as bit masks: bit n stands for slot n."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


def mask_of(slots: Iterable[int]) -> int:
    """The mask of these slots."""
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


def slots_of(mask: int) -> tuple[int, ...]:
    """The slots of a mask, lowest first."""
    return tuple(slot for slot in range(mask.bit_length()) if mask >> slot & 1)


@lru_cache(maxsize=1 << 16)
def lowest(mask: int, count: int) -> int:
    """The ``count`` lowest slots of ``mask``; all of them where it has fewer."""
    taken = 0
    for _ in range(min(count, mask.bit_count())):
        taken |= mask & -mask
        mask &= mask - 1
    return taken
