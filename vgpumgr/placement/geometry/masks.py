"""Sets of slots as bit masks: bit n stands for slot n.

Boards may have a thousand slots, so what is done here goes by runs of slots, not slot by slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

_NUMBERS = tuple(range(4096))
"""Shared, so that the slots of many VMs cost a reference each."""


def mask_of(slots: Iterable[int]) -> int:
    """The mask of these slots."""
    if isinstance(slots, tuple) and slots and slots == _NUMBERS[slots[0] : slots[-1] + 1]:
        return int((1 << len(slots)) - 1 << slots[0])
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


@lru_cache(maxsize=1 << 14)
def slots_of(mask: int) -> tuple[int, ...]:
    """The slots of a mask, lowest first."""
    found: list[int] = []
    for first, count in _runs(mask):
        found += _numbers(first, count)
    return tuple(found)


@lru_cache(maxsize=1 << 14)
def lowest(mask: int, count: int) -> int:
    """The ``count`` lowest slots of ``mask``; all of them where it has fewer."""
    taken = 0
    for first, length in _runs(mask):
        part = min(count, length)
        taken |= ((1 << part) - 1) << first
        count -= part
        if not count:
            break
    return taken


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """First slot and length of each run of slots."""
    while mask:
        first = (mask & -mask).bit_length() - 1
        shifted = mask >> first
        length = (shifted & ~(shifted + 1)).bit_length()
        yield first, length
        mask = (shifted >> length) << (first + length)


def _numbers(first: int, count: int) -> Sequence[int]:
    end = first + count
    return _NUMBERS[first:end] if end <= len(_NUMBERS) else range(first, end)
