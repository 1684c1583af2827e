"""GPU time by its holders, and idle time: together all that the fleet had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from vgpumgr.model.showback import (
    GpuPresence,
    ReportBy,
    Span,
    UsageHistory,
    UsageKey,
    UsageLine,
)
from vgpumgr.showback.held_slots import HeldSlots
from vgpumgr.showback.usage_keys import numbered, owners


class UsageCount:
    """The use of a fleet, counted once; :meth:`lines` tells it of a span."""

    def __init__(self, history: UsageHistory, by: ReportBy) -> None:
        self._gpus = history.gpus
        self._kinds, self._kind_of = numbered([(each.model, each.units) for each in self._gpus])
        self._keys, of_owner = owners(history.held, history.pools, by)
        self._held = HeldSlots(history.held, self._gpus, of_owner)
        self._groups = self._held.groups(self._kind_of, len(self._kinds))

    def lines(self, span: Span) -> tuple[UsageLine, ...]:
        """By key and model, and at the end the idle time of each model; the GPU times are
        exactly those of every board that was there. What is zero has no line.
        """
        count = len(self._keys) * len(self._kinds)
        sums = np.array(self._held.sums(span, self._groups, count), dtype=object)
        by_kind = sums.reshape(len(self._keys), len(self._kinds))
        idle = np.array(self.capacity(span), dtype=object) - by_kind.sum(axis=0, initial=0)
        held = zip(self._keys, by_kind.tolist(), strict=True)
        told = [line for key, row in held for line in self._of(key, row, span)]
        return (*sorted(told, key=_order), *self._of(None, idle.tolist(), span))

    def _of(self, key: UsageKey | None, row: Sequence[int], span: Span) -> Iterator[UsageLine]:
        """One line for each model; boards of one model may have been cut into unlike slots."""
        by_model: dict[str, Fraction] = {}
        for (model, units), slot_time in zip(self._kinds, row, strict=True):
            if slot_time:
                by_model[model] = by_model.get(model, Fraction()) + Fraction(slot_time, units)
        for model in sorted(by_model):
            yield UsageLine(key=key, model=model, span=span, gpu_time=by_model[model])

    def capacity(self, span: Span) -> list[int]:
        """Slots times microseconds of each kind of board: of all its slots while it was in the
        fleet, and of what was held while it was missing.
        """
        found = [0] * len(self._kinds)
        for number, gpu in enumerate(self._gpus):
            found[int(self._kind_of[number])] += self._of_gpu(number, gpu, span)
        return found

    def _of_gpu(self, number: int, gpu: GpuPresence, span: Span) -> int:
        there = [each for each in (each.within(span) for each in gpu.present) if each.long]
        long = sum(each.long for each in there)
        if long == span.long:
            return gpu.units * long
        held_there = sum(self._held.held_of(number, each) for each in there)
        return gpu.units * long + self._held.held_of(number, span) - held_there


def _order(line: UsageLine) -> tuple[UsageKey, str]:
    return line.key or UsageKey(), line.model
