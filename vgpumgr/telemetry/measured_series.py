"""The series of what hosts measure: of GPUs, vGPUs and MIG instances, with the labels of a frame.

A figure that was not told has no series; a GPU that a guest has tells what the kernel knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vgpumgr.helper.figure_families import LAST_XID_FAMILY, XID_FAMILY
from vgpumgr.helper.figure_table import (
    GPU_FIGURES,
    INSTANCE_FIGURES,
    VGPU_FIGURES,
    Figure,
)
from vgpumgr.helper.host_series import xid_counts
from vgpumgr.helper.series_text import BaseUnit, label_text, value_text
from vgpumgr.model.gpu_figures import Figures, GpuFigures, InstanceFigures, VgpuFigures
from vgpumgr.model.host_sample import HostSample
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.fleet_frame import (
    HEALTH_STATES,
    MIB,
    GpuFrame,
    HeadTexts,
    HostFrame,
    PartFrame,
)

_STATES = {state: label_text({"state": state}) for state in HEALTH_STATES}


class _Column:
    """A figure's lines, and how its value is written."""

    __slots__ = ("family", "labels", "lines", "name", "unit")

    def __init__(self, out: Exposition, figure: Figure) -> None:
        self.name = figure.name
        self.family = figure.family
        self.labels = label_text(dict(figure.labels))
        self.lines = out.lines(figure.family)
        self.unit = BaseUnit(figure.scale)


class MeasuredSeries:
    """Writes them to ``out``. ``details``: all series that a host can tell."""

    def __init__(self, out: Exposition, *, details: bool = False) -> None:
        self._out = out
        self._gpu = self._columns(GPU_FIGURES, details=details)
        self._vgpu = self._columns(VGPU_FIGURES, details=details)
        self._instance = self._columns(INSTANCE_FIGURES, details=details)

    def _columns(self, table: Sequence[Figure], *, details: bool) -> list[_Column]:
        return [_Column(self._out, each) for each in table if details or not each.detail]

    def add(self, hosts: Iterable[HostFrame], samples: Mapping[str, HostSample]) -> None:
        """Of every host; one that told nothing has the series of the ledger alone."""
        for host in hosts:
            sample = samples.get(host.record.name)
            told = sample.figures if sample is not None else None
            by_address = {each.address: each for each in told.gpus} if told is not None else {}
            driver = (told.driver if told is not None else None) or ""
            for gpu in host.gpus:
                self._add_gpu(gpu, by_address.get(gpu.record.facts.device), driver)

    def _add_gpu(self, gpu: GpuFrame, told: GpuFigures | None, driver: str) -> None:
        self._add_known(gpu, told, driver)
        if told is None:
            return
        _write(self._gpu, gpu.heads, told.figures)
        self._add_xids(gpu, told)
        for part, vgpu in matched(gpu, told.vgpus or ()):
            heads = part.heads if part is not None else _foreign_heads(gpu, vgpu)
            _write(self._vgpu, heads, vgpu.figures)
        known = {each.id: each for each in gpu.instances}
        for instance in told.instances or ():
            frame = known.get(instance.id)
            if frame is not None:
                _write(self._instance, frame.heads, _with_memory(instance, told))

    def _add_known(self, gpu: GpuFrame, told: GpuFigures | None, driver: str) -> None:
        """What the ledger knows of the GPU, whatever it measures."""
        out, heads = self._out, gpu.heads
        info = dict(gpu.info)
        if told is not None and told.answered:
            info |= {"vbios": told.vbios or "", "driver": driver or info["driver"]}
        out.add("vgpumgr_gpu_info", f"{heads.labels},{label_text(info)}", 1)
        name = "vgpumgr_gpu_framebuffer_allocated_bytes"
        out.lines(name).append(f"{heads[name, '']}{gpu.allocated_mib * MIB}")
        name = "vgpumgr_gpu_health_state"
        lines = out.lines(name)
        for state, labels in _STATES.items():
            lines.append(f"{heads[name, labels]}{int(state == gpu.health)}")
        lines = out.lines("vgpumgr_vgpu_info")
        for part in gpu.parts:
            lines.append(f"{part.heads['vgpumgr_vgpu_info', part.info]}1")
        lines = out.lines("vgpumgr_gi_info")
        for each in gpu.instances:
            lines.append(f"{each.heads['vgpumgr_gi_info', each.info]}1")

    def _add_xids(self, gpu: GpuFrame, told: GpuFigures) -> None:
        """Codes that have never been seen are there at 0; of a GPU that is given away there are
        errors of PCIe instead.
        """
        lines = self._out.lines(XID_FAMILY.name)
        for code, count in xid_counts(told.xids, told.driver, told.figures):
            lines.append(f"{gpu.heads[XID_FAMILY.name, _xid_label(code)]}{count}")
        if told.last_xid is not None:
            name = LAST_XID_FAMILY.name
            self._out.lines(name).append(f"{gpu.heads[name, '']}{value_text(told.last_xid)}")


def _write(columns: Sequence[_Column], heads: HeadTexts, figures: Figures) -> None:
    """A line for each figure that was told."""
    for column in columns:
        figure = figures.get(column.name)
        if figure is not None:
            column.lines.append(heads[column.family, column.labels] + column.unit.text(figure))


_xid_labels: dict[str, str] = {}


def _xid_label(code: str) -> str:
    found = _xid_labels.get(code)
    if found is None:
        found = _xid_labels[code] = label_text({"xid": code})
    return found


def _foreign_heads(gpu: GpuFrame, vgpu: VgpuFigures) -> HeadTexts:
    """Of a vGPU that no VM of ours has: by its mdev, else by the driver's own UUID of it."""
    name = vgpu.mdev or vgpu.uuid or str(vgpu.number)
    return HeadTexts(f"{gpu.heads.labels},{label_text({'vgpu': name})}")


def _with_memory(instance: InstanceFigures, told: GpuFigures) -> Figures:
    """Where the host has no device of an instance, what its vGPUs use."""
    name = "framebuffer_used_bytes"
    inside = [each for each in told.vgpus or () if each.instance == instance.id]
    if name in instance.figures or not inside or any(name not in e.figures for e in inside):
        return instance.figures
    return {**instance.figures, name: sum(each.figures[name] for each in inside)}


def matched(
    gpu: GpuFrame, vgpus: Sequence[VgpuFigures]
) -> list[tuple[PartFrame | None, VgpuFigures]]:
    """Each running vGPU with what the ledger knows of it; None for another's.

    By its mdev, else by its VM: several vGPUs that one VM has of a GPU are told apart by their GPU
    instance and placement id, else taken in order.
    """
    taken: set[str] = set()
    found = []
    for vgpu in sorted(vgpus, key=lambda each: each.number):
        part = _part_of(gpu, vgpu, taken)
        if part is not None:
            taken.add(part.name)
        found.append((part, vgpu))
    return found


def _part_of(gpu: GpuFrame, vgpu: VgpuFigures, taken: set[str]) -> PartFrame | None:
    if vgpu.mdev is not None:
        return gpu.by_device.get(vgpu.mdev)
    mine = [each for each in gpu.by_vm.get(vgpu.vm or "", ()) if each.name not in taken]
    exact = [each for each in mine if _lies_there(each, vgpu)]
    return next(iter(exact or mine), None)


def _lies_there(part: PartFrame, vgpu: VgpuFigures) -> bool:
    """Is it the vGPU's place, as far as both are known?"""
    placement = part.allocation.placement_id
    return part.instance == vgpu.instance and (
        placement is None or vgpu.placement_id is None or placement == vgpu.placement_id
    )
