"""One reading of a host's figures as the sampler keeps it, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.gpu_figures import HostFigures
from vgpumgr.model.load_scale import VmLoad
from vgpumgr.model.power import MeterReading


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """``at`` is when it was asked (Unix seconds), ``took_s`` how long it took. ``hung``: the host,
    or its driver, did not answer in time; ``error`` is why there are no ``figures``.
    """

    host: str
    at: float
    took_s: float = 0.0
    figures: HostFigures | None = None
    hung: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSample:
    """The newest reading of every host; ``interval_s`` is the time between two. ``loads`` are those
    of VMs, where a pool asks for them; ``meters`` are those of power budgets.
    """

    at: float
    interval_s: float
    hosts: tuple[HostSample, ...] = ()
    loads: tuple[VmLoad, ...] = ()
    meters: tuple[MeterReading, ...] = ()
