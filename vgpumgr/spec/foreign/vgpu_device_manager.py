"""NVIDIA vgpu-device-manager's configuration files: vGPU types made ahead on GPUs.

Here vGPUs are made for VMs; a layout holds what has to be there before: VFs, MIG mode with the
GPU instances behind MIG-backed types, mixed-size mode.
Source: api/spec/v1/spec.go and pkg/types of NVIDIA/vgpu-device-manager.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, model_validator

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.model.gpu import MigFacts, MigType
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec
from vgpumgr.spec.fields import Line, refuse
from vgpumgr.spec.foreign.conversion import ForeignFormat
from vgpumgr.spec.foreign.gpu_filters import GpuFilter, GpuGroup, GpuTargets, rule_for
from vgpumgr.spec.foreign.shared_format import ForeignConfigs, ForeignEntryModel, ForeignFileModel

T = TypeVar("T", VgpuType, MigType)

_ON_VFS = "sriov-vf"
_MIG_BACKED = re.compile(r"-[1-9]-\d{1,4}[A-Z]{1,8}")
_ATTRIBUTE = re.compile(r"(ME|NOME|MEALL|GFX)$")
_TYPE = re.compile(
    r"[A-Z0-9]{1,32}(-[A-Za-z]{1,16}){0,4}(-[1-9])?-(0|[1-9]\d{0,3})[ABCQ](ME|NOME|MEALL|GFX)?"
)


_NOT_THERE = ("mixed_size", "scheduler", "scheduler_timing", "power_limit", "locked_clocks")


def _type(name: str) -> str:
    if _TYPE.fullmatch(name) is None and name not in catalog.profiles():
        refuse("is not a vGPU type like A40-8Q or A100D-1-10C")
    return name


Counts = dict[Annotated[Line, AfterValidator(_type)], Annotated[int, Field(ge=1, le=256)]]


class VgpuEntryModel(ForeignEntryModel):
    """vGPU types, and how many of each, on some GPUs."""

    counts: Counts = Field(alias="vgpu-devices", max_length=64)

    @model_validator(mode="after")
    def _one_kind(self) -> VgpuEntryModel:
        if len({_MIG_BACKED.search(name) is None for name in self.counts}) > 1:
            refuse("a GPU has time-sliced or MIG-backed vGPUs, never both", "vgpu-devices")
        return self


class VgpuFileModel(ForeignFileModel):
    """A file of named configurations."""

    configs: ForeignConfigs[VgpuEntryModel] = Field(alias="vgpu-configs")


def _rules(entry: VgpuEntryModel, targets: GpuTargets) -> list[LayoutRule]:
    by_layout: dict[GpuLayout, list[GpuGroup]] = {}
    known = False
    for group in targets.of(entry):
        layout = _of_group(group, entry, targets)
        if layout is None:
            continue
        known = True
        targets.take(group)
        if layout != GpuLayout():
            by_layout.setdefault(layout, []).append(group)
    if entry.counts and not known:
        targets.left_out.append(f"{', '.join(entry.counts)}: no GPU here supports these")
    for kind, count in entry.counts.items():
        said = f"{kind} × {count}: a vGPU is created for the VM that requests it, not ahead"
        targets.left_out.append(said)
    return [rule for layout, groups in by_layout.items() for rule in rule_for(layout, groups)]


def _of_group(group: GpuGroup, entry: VgpuEntryModel, targets: GpuTargets) -> GpuLayout | None:
    """What these GPUs need before the vGPUs can be made; None where they do not make them."""
    if group.board is not None:
        found = _all_known(entry.counts, {_short(each.profile): each for each in group.board.types})
        return _layout(group.board, found) if found else None
    told = [gpu.mig for gpu in targets.unlisted(group.model) if gpu.mig and gpu.mig.types]
    layouts = (_told(each, entry.counts) for each in told)
    layout = next((each for each in layouts if each is not None), None)
    if layout is None and (entry.ids or group.devices):
        said = "neither the catalogue nor its driver knows all of these vGPU types"
        targets.left_out.append(f"{group.model}: {said}")
    return layout


def _all_known(counts: Mapping[str, int], types: Mapping[str, T]) -> dict[T, int]:
    """The types that are meant; none where one of them is not known."""
    found = {_known(name, types): count for name, count in counts.items()}
    known = {kind: count for kind, count in found.items() if kind is not None}
    return known if len(known) == len(counts) else {}


def _told(mig: MigFacts, counts: Mapping[str, int]) -> GpuLayout | None:
    """Of a board outside the catalogue: MIG-backed types, by what its driver tells."""
    names = {each.profile_id: each.name for each in mig.profiles}
    types = {_short(each.profile): each for each in mig.types or () if each.profile_id in names}
    found = _all_known(counts, types)
    instances = (
        InstanceGoal(profile=names[each.profile_id])
        for each, count in found.items()
        for _ in range(-(-count // each.per_instance))
    )
    return GpuLayout(mig=True, vfs=VFS_MAX, instances=tuple(instances)) if found else None


def _short(profile: str) -> str:
    """The tool names a type by its last word: ``DC-1-24Q`` of ``RTX Pro 6000 Blackwell DC-1-24Q``.

    Source: pkg/vgpu/vfio of NVIDIA/vgpu-device-manager.
    """
    return profile.rpartition(" ")[2]


def _known(name: str, types: Mapping[str, T]) -> T | None:
    """A type by its name; an attribute that the driver's name lacks (``GFX``) is dropped."""
    short = name.rpartition(" ")[2]
    return types.get(short) or types.get(_ATTRIBUTE.sub("", short))


def _layout(board: Board, counts: Mapping[VgpuType, int]) -> GpuLayout:
    """What has to be there before these vGPUs can be made."""
    vfs = VFS_MAX if board.host_mode == _ON_VFS else None
    if any(each.mig for each in counts):
        instances = (
            InstanceGoal(profile=each.mig)
            for each, count in counts.items()
            for _ in range(-(-count // each.max_per_gi))
        )
        return GpuLayout(mig=True, vfs=vfs, instances=tuple(instances))
    mixed = len({each.fb_mib for each in counts}) > 1 and board.mixed_size
    mig = False if board.mig_capable else None
    return GpuLayout(mig=mig, vfs=vfs, mixed_size=mixed or None)


def _entries(spec: LayoutSpec, where: GpuFilter) -> list[dict[str, Any]]:
    """The last match wins there, the first here."""
    found = []
    for rule in reversed(spec.rules):
        if not rule.layout.instances:
            where.note(rule, "declares no GPU instance, and the format nothing else of a layout")
            continue
        for group in where.groups(rule):
            counts = _types(group, rule.layout.instances, where)
            if counts is None:
                where.note(rule, f"{group.model}: no vGPU type has such an instance to itself")
                continue
            targets = where.of_groups(rule, [group])
            found += [{**target, "vgpu-devices": counts} for target in targets]
        where.note_lost(rule, _NOT_THERE)
        if not rule.models and not rule.devices:
            where.note(rule, "names no board: vGPU types are a board's own")
    return found


def _types(
    group: GpuGroup, instances: Sequence[InstanceGoal], where: GpuFilter
) -> dict[str, int] | None:
    """The types that have these instances to themselves; None where one has no such type."""
    names = [_alone_in(group, each.profile, where) for each in instances]
    return dict(Counter(map(_short, names))) if all(names) else None


def _alone_in(group: GpuGroup, profile: str, where: GpuFilter) -> str:
    """By the catalogue, or by what the driver of such a board tells; empty for none."""
    if group.board is not None:
        known = catalog.whole_instance_type(group.board, profile)
        return known.profile if known else ""
    migs = [gpu.mig for gpu in where.of_model(group.model) if gpu.mig is not None]
    listed = ((mig, each) for mig in migs for each in mig.profiles if each.name == profile)
    found = (mig.alone_in(each) for mig, each in listed)
    return next((each.profile for each in found if each is not None), "")


FORMAT = ForeignFormat("vgpu-configs", VgpuFileModel, _rules, _entries)
