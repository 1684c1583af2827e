"""How much of the free GPU memory is unusable for what is expected, and which rules say so. Pure
but for what the ledger is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.outlook import Expected
from vgpumgr.model.placement import Fleet
from vgpumgr.model.ports import Ledger
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.mix import creatable
from vgpumgr.placement.stranded import Stranded, stranded


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """``share`` of the free memory, between 0 and 1; ``mix`` says what it is measured against."""

    free_mib: int
    unusable_mib: int
    share: float
    mix: str


class Gauging:
    """One fleet measured against what is expected at ``now`` (Unix seconds), rare requests too:
    the one figure of `capacity`, `serve` and `defrag`. ``mix`` is what it is measured against.
    """

    def __init__(self, fleet: Fleet, expected: Expected, ledger: Ledger, now: float) -> None:
        self._fleet = fleet
        mix = expected.mix(ledger, now, fleet)
        self.mix: Mix = creatable(fleet) if mix is None else mix.with_rare
        self._words = "the profiles that the fleet can create" if mix is None else expected.words

    def gauge(self) -> Gauge:
        """The fleet in all."""
        placer = Placer(self._fleet, PlacementPolicy.LEAST_FRAGMENTATION, mix=self.mix)
        found = placer.fragmentation()
        return Gauge(
            free_mib=round(found.free_mib),
            unusable_mib=round(found.unusable_mib),
            share=round(found.share, 4),
            mix=self._words,
        )

    def stranded(self) -> tuple[Stranded, ...]:
        """GPU by GPU, with the rule."""
        return stranded(self._fleet, self.mix)
