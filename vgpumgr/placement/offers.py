"""Which of a GPU's offers answer a kind of GPU part, best first."""

from __future__ import annotations

from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import Offer
from vgpumgr.placement.demand import Kind

SERIES = {"Q": 0, "C": 1, "B": 2, "A": 3}
"""Series by what their guests can do, the most capable first."""

Rank = tuple[int, ...]


def whole(offer: Offer) -> bool:
    """Whether the offer is the GPU itself."""
    return offer.framework is Framework.PASSTHROUGH


def rank(offer: Offer) -> Rank:
    """The order among offers that have enough memory: lower is chosen first."""
    series = SERIES.get(offer.series, len(SERIES))
    return offer.memory_mib, whole(offer), series, offer.instance is not None


GIVEN_AWAY = 4.0
"""GPU that a VM gets beyond what it asked for costs so many times its size: what is idle may still
be of use to somebody, and a mix says that of little where it knows few who ask."""


def surplus(offer: Offer, kind: Kind) -> float:
    """What giving the offer costs beyond what was asked for, per thing that it takes: 0 for parts
    by name.
    """
    if kind.profile or offer.memory_mib <= kind.memory_mib:
        return 0.0
    return GIVEN_AWAY * (1.0 - kind.memory_mib / offer.memory_mib)


def matching(offers: tuple[Offer, ...], kind: Kind) -> tuple[Offer, ...]:
    """The offers of that name, or with that much memory, through the wanted framework."""
    found = [offer for offer in named(offers, kind) if kind.framework in (None, offer.framework)]
    return tuple(sorted(found, key=rank))


def named(offers: tuple[Offer, ...], kind: Kind) -> list[Offer]:
    """The same, whatever the framework."""
    if not kind.profile:
        return [offer for offer in offers if offer.memory_mib >= kind.memory_mib]
    exact = [offer for offer in offers if offer.profile == kind.profile]
    return exact or [offer for offer in offers if kind.profile in offer.names]
