"""The series of what hosts measure: of GPUs, vGPUs and MIG instances, with the labels of a frame.

A figure that was not told has no series; a GPU that a guest has tells what the kernel knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from vgpumgr.helper.figure_families import GPU_INFO_FAMILY, LAST_XID_FAMILY, XID_FAMILY
from vgpumgr.helper.figure_table import GPU_FIGURES, INSTANCE_FIGURES, VGPU_FIGURES, Figure
from vgpumgr.helper.host_series import xid_counts
from vgpumgr.helper.series_text import BaseUnit, label_text
from vgpumgr.model.gpu_figures import Figures, GpuFigures, InstanceFigures, VgpuFigures
from vgpumgr.model.host_sample import HostSample
from vgpumgr.telemetry.exposition import Exposition
from vgpumgr.telemetry.fleet_frame import GpuFrame, HeadTexts, HostFrame, PartFrame

Told = tuple[HeadTexts, Figures]
"""What is measured of one thing, and the beginnings of its lines."""


class _Values(dict[int, str]):
    """Values of one figure in the base unit, as text: those of one round are known."""

    def __init__(self, unit: BaseUnit) -> None:
        super().__init__()
        self._unit = unit

    def __missing__(self, figure: int) -> str:
        found = self[figure] = self._unit.text(figure)
        return found


class _Column:
    """The lines of one figure."""

    def __init__(self, figure: Figure) -> None:
        self._family, self._name = figure.family, figure.name
        self._key = (figure.family, label_text(dict(figure.labels)))
        self._unit = BaseUnit(figure.scale)
        self._get = itemgetter(figure.name)
        self._plain = figure.scale == 1
        self._of: Sequence[HeadTexts] = ()
        self._heads: list[str] = []

    def write(self, out: Exposition, heads: list[HeadTexts], every: list[Figures]) -> None:
        """A line for each that tells the figure. ``heads`` is the same list as long as it has the
        same members.
        """
        try:
            values = list(map(self._get, every))
        except KeyError:
            self._write_some(out, heads, every)
            return
        if self._of is not heads:
            self._of, self._heads = heads, [each[self._key] for each in heads]
        out.add_column(self._family, self._heads, self._texts(values))

    def _write_some(self, out: Exposition, heads: list[HeadTexts], every: list[Figures]) -> None:
        """Where others do not tell it."""
        name, key = self._name, self._key
        found = [
            (of[key], told[name]) for of, told in zip(heads, every, strict=True) if name in told
        ]
        texts = self._texts([value for _, value in found])
        out.add_column(self._family, [head for head, _ in found], texts)

    def _texts(self, values: Sequence[int]) -> list[str]:
        if self._plain:
            return list(map(str, values))
        return list(map(_Values(self._unit).__getitem__, values))


class FigureColumns:
    """The columns of a table of figures."""

    def __init__(self, table: Iterable[Figure]) -> None:
        self._columns = [_Column(each) for each in table]
        self._heads: list[HeadTexts] = []

    def write(self, out: Exposition, every: Iterable[Told]) -> None:
        """Every figure that is told."""
        pairs = list(every)
        heads = [head for head, _ in pairs]
        if len(heads) != len(self._heads) or any(
            one is not other for one, other in zip(heads, self._heads, strict=True)
        ):
            self._heads = heads
        told = [figures for _, figures in pairs]
        for column in self._columns:
            column.write(out, self._heads, told)


class MeasuredSeries:
    """Writes them, round by round. ``details``: all series that a host can tell."""

    def __init__(self, *, details: bool = False) -> None:
        tables = (GPU_FIGURES, VGPU_FIGURES, INSTANCE_FIGURES)
        self._columns = [
            FigureColumns(each for each in table if details or not each.detail) for table in tables
        ]

    def add(
        self, out: Exposition, hosts: Iterable[HostFrame], samples: Mapping[str, HostSample]
    ) -> None:
        """Of every host; one that told nothing has the series of the ledger alone."""
        told = _MeasuredRound(out)
        for host in hosts:
            told.add_host(host, samples.get(host.record.name))
        for columns, every in zip(
            self._columns, (told.gpus, told.vgpus, told.instances), strict=True
        ):
            columns.write(out, every)


class _MeasuredRound:
    """What is measured in one round, of everything that has figures; other series are written."""

    def __init__(self, out: Exposition) -> None:
        self._out = out
        self.gpus: list[Told] = []
        self.vgpus: list[Told] = []
        self.instances: list[Told] = []

    def add_host(self, host: HostFrame, sample: HostSample | None) -> None:
        """Its GPUs, told of or not."""
        told = sample.figures if sample is not None else None
        by_address = {each.address: each for each in told.gpus} if told is not None else {}
        driver = (told.driver if told is not None else None) or ""
        for gpu in host.gpus:
            found = by_address.get(gpu.record.facts.device)
            self._add_known(gpu, found, driver)
            if found is not None:
                self._add_told(gpu, found)

    def _add_known(self, gpu: GpuFrame, told: GpuFigures | None, driver: str) -> None:
        """What the ledger knows of the GPU, whatever it measures."""
        info = dict(gpu.info)
        if told is not None and told.answered:
            info |= {"vbios": told.vbios or "", "driver": driver or info["driver"]}
        self._out.add(GPU_INFO_FAMILY.name, f"{gpu.heads.labels},{label_text(info)}", 1)
        for family, text, series in gpu.known:
            self._out.add_text(family, text, series)

    def _add_told(self, gpu: GpuFrame, told: GpuFigures) -> None:
        self.gpus.append((gpu.heads, told.figures))
        self._add_xids(gpu, told)
        for part, vgpu in matched(gpu, told.vgpus or ()):
            heads = part.heads if part is not None else _foreign_heads(gpu, vgpu)
            self.vgpus.append((heads, vgpu.figures))
        known = {each.id: each for each in gpu.instances}
        for instance in told.instances or ():
            frame = known.get(instance.id)
            if frame is not None:
                self.instances.append((frame.heads, _with_memory(instance, told)))

    def _add_xids(self, gpu: GpuFrame, told: GpuFigures) -> None:
        """Codes that have never been seen are there at 0; of a GPU that is given away there are
        errors of PCIe instead.
        """
        name = XID_FAMILY.name
        for code, count in xid_counts(told.xids, told.driver, told.figures):
            self._out.add_text(name, f"{gpu.heads[name, _xid_labels[code]]}{count}")
        if told.last_xid is not None:
            self._out.add(LAST_XID_FAMILY.name, gpu.heads.labels, told.last_xid)


class _XidLabels(dict[str, str]):
    def __missing__(self, code: str) -> str:
        found = self[code] = label_text({"xid": code})
        return found


_xid_labels = _XidLabels()


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
