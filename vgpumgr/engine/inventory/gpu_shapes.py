"""What GPUs have in common that differ in their UUID and serial alone. Worked out once for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter

from vgpumgr import catalog
from vgpumgr import gpu as frameworks
from vgpumgr.model import formats
from vgpumgr.model.gpu import Framework, GpuFacts, GpuRecord
from vgpumgr.model.identity_memo import IdentityMemo
from vgpumgr.model.supply import Offer

MOST_SHAPES = 1 << 12
_COMMON = attrgetter(*(f.name for f in fields(GpuFacts) if f.name not in {"uuid", "serial"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShape:
    """What can be made on such GPUs, and their ``functions``: addresses, and units of claims.

    ``odd``: what the driver tells contradicts itself.
    """

    offers: tuple[Offer, ...]
    could: Mapping[str, str]
    same_size: bool
    functions: frozenset[str]
    odd: bool


_SHAPES = IdentityMemo[GpuShape](MOST_SHAPES)


def shape_of(gpu: GpuRecord) -> GpuShape:
    """The shape of the GPU, which all share that the ledger keeps as one text."""
    return _SHAPES.of(_COMMON(gpu.facts), gpu.units, lambda: _shape(gpu))


def _shape(gpu: GpuRecord) -> GpuShape:
    offers = tuple(_whole(offer, gpu.units) for offer in frameworks.offers(gpu.facts))
    functions = {gpu.facts.device, *(vf.address for vf in gpu.facts.vfs)}
    return GpuShape(
        offers=offers,
        could=frameworks.potential(gpu.facts),
        same_size=any(offer.size_class and not offer.instance for offer in offers),
        functions=frozenset((*functions, *map(formats.pci_claim, functions))),
        odd=bool(catalog.contradiction(gpu.facts)),
    )


def _whole(offer: Offer, units: int) -> Offer:
    """Passthrough takes every slot of the GPU."""
    return replace(offer, units=units) if offer.framework is Framework.PASSTHROUGH else offer
