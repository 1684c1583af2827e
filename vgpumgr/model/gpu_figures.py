"""What hosts measure of their GPUs: figures of GPUs, their vGPUs and MIG instances.

A *figure* is one whole number in the unit that its name ends with (``power_mw``); which there are,
and what becomes of each, is in docs/metrics.md. What a driver does not tell is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpumgr.model.host import UnknownPart

Figures = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuFigures:
    """A vGPU with a running VM. ``number`` is the driver's; ``mdev`` its mediated device, where it
    has one; ``vm`` the id that its VM has for the driver, ``uuid`` the driver's own of the vGPU.
    ``instance`` is its GPU instance's id, ``placement_id`` its place.
    """

    number: int
    uuid: str | None = None
    mdev: str | None = None
    vm: str | None = None
    type_id: int | None = None
    instance: int | None = None
    placement_id: int | None = None
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFigures:
    """A MIG GPU instance by its id."""

    id: int
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFigures:
    """A GPU at its PCI address. ``answered``: NVML told of it; never of one that a guest has.

    ``vgpus`` and ``instances`` are None where they could not be read. ``xids`` are counts by code
    since the host's boot, None where its log has none of this GPU to tell; ``last_xid`` is when
    the last was (Unix seconds).
    """

    address: str
    driver: str | None = None
    answered: bool = False
    uuid: str | None = None
    vbios: str | None = None
    figures: Figures = field(default_factory=dict)
    vgpus: tuple[VgpuFigures, ...] | None = None
    instances: tuple[InstanceFigures, ...] | None = None
    xids: Mapping[str, int] | None = None
    last_xid: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFigures:
    """One reading of a host's GPUs. ``hung``: NVIDIA's driver did not answer in time."""

    host: str
    driver: str | None = None
    hung: bool = False
    gpus: tuple[GpuFigures, ...] = ()
    unknown: tuple[UnknownPart, ...] = ()
