"""The newest figures of each GPU and of what VMs hold of it, joined for people to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vgpumgr.model.gpu_figures import Figures, GpuFigures
from vgpumgr.model.host_sample import FleetSample, HostSample
from vgpumgr.telemetry.fleet_frame import GpuFrame, HostFrame, PartFrame
from vgpumgr.telemetry.measured_series import matched

NOTHING: Figures = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPart:
    """A part of a GPU: of a VM of ours, or another's vGPU (``part`` None) by its ``name``."""

    name: str
    part: PartFrame | None
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentGpu:
    """A GPU; ``told`` None: its host has told nothing of it. ``at`` is when it was asked."""

    frame: GpuFrame
    at: float
    told: GpuFigures | None
    parts: tuple[CurrentPart, ...]

    @property
    def figures(self) -> Figures:
        """Its own; none where it told nothing."""
        return self.told.figures if self.told is not None else NOTHING


def current_gpus(hosts: Iterable[HostFrame], sample: FleetSample) -> Iterator[CurrentGpu]:
    """Every GPU of the hosts that are in the sample."""
    samples: Mapping[str, HostSample] = {each.host: each for each in sample.hosts}
    for host in hosts:
        found = samples.get(host.record.name)
        if found is None:
            continue
        gpus = found.figures.gpus if found.figures is not None else ()
        by_address = {each.address: each for each in gpus}
        for gpu in host.gpus:
            told = by_address.get(gpu.record.facts.device)
            yield CurrentGpu(frame=gpu, at=found.at, told=told, parts=_parts(gpu, told))


def _parts(gpu: GpuFrame, told: GpuFigures | None) -> tuple[CurrentPart, ...]:
    """What VMs hold, at work or not; then what runs and is no VM's of ours."""
    running = matched(gpu, (told.vgpus or ()) if told is not None else ())
    by_name = {part.name: vgpu.figures for part, vgpu in running if part is not None}
    ours = [
        CurrentPart(name=part.name, part=part, figures=by_name.get(part.name, NOTHING))
        for part in gpu.parts
    ]
    others = [
        CurrentPart(
            name=vgpu.mdev or vgpu.uuid or str(vgpu.number), part=None, figures=vgpu.figures
        )
        for part, vgpu in running
        if part is None
    ]
    return (*ours, *others)
