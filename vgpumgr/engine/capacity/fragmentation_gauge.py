"""The fragmentation gauge: free GPU memory that no expected request can use."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.operations.expected_requests import ExpectedRequests
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.supply import Fleet
from vgpumgr.model.vm import PlacementPolicy
from vgpumgr.placement import Mix, Placer
from vgpumgr.placement.fit_explanation import Stranded, stranded
from vgpumgr.placement.request_mix import creatable


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentationGauge:
    """``share`` of the free memory, between 0 and 1; ``mix`` says what it is measured against."""

    free_mib: int
    unusable_mib: int
    share: float
    mix: str


class FragmentationMeasure:
    """One fleet measured against what is expected at ``now`` (Unix seconds), rare requests too:
    the one figure of `capacity`, `serve` and `defrag`. ``mix`` is what it is measured against.
    """

    def __init__(
        self, fleet: Fleet, expected: ExpectedRequests, ledger: Ledger, now: float
    ) -> None:
        self._fleet = fleet
        mix = expected.mix(ledger, now, fleet)
        self.mix: Mix = creatable(fleet) if mix is None else mix.with_rare
        self._words = "the profiles that the fleet can create" if mix is None else expected.words

    def gauge(self) -> FragmentationGauge:
        """The fleet in all."""
        placer = Placer(self._fleet, PlacementPolicy.CAPACITY_FIRST, mix=self.mix)
        found = placer.fragmentation()
        return FragmentationGauge(
            free_mib=round(found.free_mib),
            unusable_mib=round(found.unusable_mib),
            share=round(found.share, 4),
            mix=self._words,
        )

    def stranded(self) -> tuple[Stranded, ...]:
        """GPU by GPU, with the rule."""
        return stranded(self._fleet, self.mix)
