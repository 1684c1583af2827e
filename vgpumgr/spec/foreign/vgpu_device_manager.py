"""NVIDIA vgpu-device-manager's configuration files: vGPU types made ahead on GPUs.

Here vGPUs are made for VMs; a layout holds what has to be there before: VFs, MIG mode with the
GPU instances behind MIG-backed types, mixed-size mode.
Source: api/spec/v1/spec.go and pkg/types of NVIDIA/vgpu-device-manager.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from vgpumgr import catalog
from vgpumgr.catalog import Board, VgpuType
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec
from vgpumgr.spec.fields import Line, refuse
from vgpumgr.spec.foreign.boards import Group, Targets, rule_for
from vgpumgr.spec.foreign.files import Configs, EntryModel, FileModel
from vgpumgr.spec.foreign.format import Format
from vgpumgr.spec.foreign.where import Where

_ON_VFS = "sriov-vf"
_MIG_BACKED = re.compile(r"-[1-9]-\d{1,4}[A-Z]{1,8}")
_ATTRIBUTE = re.compile(r"(ME|NOME|MEALL|GFX)$")
_TYPE = re.compile(
    r"[A-Z0-9]{1,32}(-[A-Za-z]{1,16}){0,4}(-[1-9])?-(0|[1-9]\d{0,3})[ABCQ](ME|NOME|MEALL|GFX)?"
)


def _type(name: str) -> str:
    if _TYPE.fullmatch(name) is None and name not in catalog.profiles():
        refuse("is no vGPU type like A40-8Q or A100D-1-10C")
    return name


Counts = dict[Annotated[Line, AfterValidator(_type)], Annotated[int, Field(ge=1, le=256)]]


class VgpuEntryModel(EntryModel):
    """vGPU types, and how many of each, on some GPUs."""

    counts: Counts = Field(alias="vgpu-devices", max_length=64)

    @model_validator(mode="after")
    def _one_kind(self) -> VgpuEntryModel:
        if len({_MIG_BACKED.search(name) is None for name in self.counts}) > 1:
            refuse("a GPU has time-sliced or MIG-backed vGPUs, never both", "vgpu-devices")
        return self


class VgpuFileModel(FileModel):
    """A file of named configurations."""

    configs: Configs[VgpuEntryModel] = Field(alias="vgpu-configs")


def _rules(entry: VgpuEntryModel, targets: Targets) -> list[LayoutRule]:
    by_layout: dict[GpuLayout, list[Group]] = {}
    known = False
    for group in targets.of(entry):
        if group.board is None:
            if entry.ids or group.devices:
                targets.left_out.append(f"{group.model}: its vGPU types are not in the catalogue")
            continue
        types = {_short(each): each for each in group.board.types}
        counts = {_known(name, types): count for name, count in entry.counts.items()}
        found = {kind: count for kind, count in counts.items() if kind is not None}
        if not found or len(found) < len(entry.counts):
            continue
        known = True
        targets.take(group)
        layout = _layout(group.board, found)
        if layout != GpuLayout():
            by_layout.setdefault(layout, []).append(group)
    if entry.counts and not known:
        targets.left_out.append(f"{', '.join(entry.counts)}: no GPU here makes these")
    for kind, count in entry.counts.items():
        said = f"{kind} × {count}: a vGPU is made for the VM that asks for it, not ahead"
        targets.left_out.append(said)
    return [rule for layout, groups in by_layout.items() for rule in rule_for(layout, groups)]


def _short(kind: VgpuType) -> str:
    """The tool names a type by its last word: ``DC-1-24Q`` of ``RTX Pro 6000 Blackwell DC-1-24Q``.

    Source: pkg/vgpu/vfio of NVIDIA/vgpu-device-manager.
    """
    return kind.profile.rpartition(" ")[2]


def _known(name: str, types: Mapping[str, VgpuType]) -> VgpuType | None:
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


def _entries(spec: LayoutSpec, where: Where) -> list[dict[str, Any]]:
    """The last match wins there, the first here."""
    found = []
    for rule in reversed(spec.rules):
        if not rule.layout.instances:
            where.note(rule, "declares no GPU instance, and the format nothing else of a layout")
            continue
        for group in where.groups(rule):
            counts = _types(group.board, rule.layout.instances) if group.board else None
            if counts is None:
                where.note(rule, f"{group.model}: no vGPU type has such an instance to itself")
                continue
            targets = where.of_groups(rule, [group])
            found += [{**target, "vgpu-devices": counts} for target in targets]
        where.note_lost(rule, ("mixed_size", "scheduler"))
        if not rule.models and not rule.devices:
            where.note(rule, "names no board: vGPU types are a board's own")
    return found


def _types(board: Board, instances: Sequence[InstanceGoal]) -> dict[str, int] | None:
    types = [catalog.whole_instance_type(board, each.profile) for each in instances]
    if None in types:
        return None
    return dict(Counter(_short(each) for each in types if each is not None))


FORMAT = Format("vgpu-configs", VgpuFileModel, _rules, _entries)
