"""How what is held of the GPUs changed day by day, and how long room lasts if it goes on. Pure.

What was refused is not in it: it was never held. Counted are GPUs, so that slots of all sizes go
together: half of a GPU is 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from vgpumgr.model.history import Holding
from vgpumgr.model.placement import Fleet, GpuSupply, Offer
from vgpumgr.placement.forecast import ENOUGH_DAYS, Futures, Lasting

DAY_S = 86_400.0
# Older days are of another time.
_MOST_DAYS = 90


class Growth:
    """What was held of a fleet's GPUs, up to ``now`` (Unix seconds)."""

    def __init__(self, fleet: Fleet, holdings: Sequence[Holding], now: float) -> None:
        self._gpus = {gpu.id: gpu for host in fleet.hosts for gpu in host.gpus}
        self._holdings = holdings
        self._now = now
        self._futures: dict[frozenset[str], Futures] = {}

    @cached_property
    def days(self) -> int:
        """Whole days of history, 90 at most."""
        first = min((each.since for each in self._holdings), default=self._now)
        return min(_MOST_DAYS, max(0, int((self._now - first) // DAY_S)))

    def lasting(self, profile: str, fits: int) -> Lasting | None:
        """How long ``fits`` more of a profile are enough, as all that lies on the GPUs which make
        it changes; None with fewer than 14 days of history.
        """
        made = [
            (gpu, offer)
            for gpu in self._gpus.values()
            for offer in gpu.offers
            if offer.profile == profile
        ]
        if self.days < ENOUGH_DAYS or not made:
            return None
        size = sum(_share(gpu, offer) for gpu, offer in made) / len(made)
        models = frozenset(gpu.model for gpu, _ in made)
        if models not in self._futures:
            self._futures[models] = Futures(self._changes(models))
        # The last one is gone when less than its size is left.
        return self._futures[models].lasting((fits - 1) * size)

    def _changes(self, models: frozenset[str]) -> list[float]:
        """By day, the oldest first: GPUs of these models taken, less those given back."""
        changes = [0.0] * self.days
        for each in self._holdings:
            gpu = self._gpus.get(each.gpu)
            if gpu is None or gpu.model not in models:
                continue
            share = each.units / max(1, gpu.units)
            for at, change in ((each.since, share), (each.until, -share)):
                day = -1 if at is None else int((self._now - at) // DAY_S)
                if 0 <= day < self.days:
                    changes[self.days - 1 - day] += change
        return changes


def _share(gpu: GpuSupply, offer: Offer) -> float:
    return offer.units / max(1, gpu.units)
