"""NVIDIA mig-parted's configuration files: MIG mode, GPU instances and compute instances.

Source: api/spec/v1/spec.go and pkg/mig/config/config.go of NVIDIA/mig-parted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, InstanceGoal, LayoutRule, LayoutSpec
from vgpumgr.spec import layout_rules
from vgpumgr.spec.fields import Line, refuse
from vgpumgr.spec.foreign.conversion import ForeignFormat
from vgpumgr.spec.foreign.gpu_filters import GpuFilter, GpuGroup, GpuTargets, rule_for
from vgpumgr.spec.foreign.shared_format import ForeignConfigs, ForeignEntryModel, ForeignFileModel

_NAME = re.compile(
    r"(?:(?P<c>[1-9])c\.)?(?P<gi>(?P<g>[1-9])g\.\d{1,4}gb(?:[+-][a-z0-9.,+-]{1,32})?)"
)


@dataclass(slots=True)
class FilledInstance:
    """A GPU instance being filled; ``free`` are its compute slices left."""

    profile: str
    free: int
    compute: list[str] = field(default_factory=list)
    count: int = 1
    start: None = None


def is_name(name: str) -> bool:
    """Whether it has the form ``1g.10gb``, ``1g.10gb+me`` or ``1c.3g.40gb``."""
    match = _NAME.fullmatch(name)
    return match is not None and int(match["c"] or 0) <= int(match["g"])


def instances(counts: Mapping[str, int]) -> tuple[FilledInstance, ...]:
    """GPU instances that hold these compute instances: as few as possible, as the tool does.

    Source: SetMigConfig in pkg/mig/config/config.go, which fills a GPU instance of the same
    profile before it makes the next one.
    """
    made: list[FilledInstance] = []
    for name, (profile, slices, total) in _by_size(counts):
        for _ in range(counts[name]):
            with_room = (e for e in made if e.profile == profile and e.free >= slices)
            instance = next(with_room, None)
            if instance is None:
                instance = FilledInstance(profile, total)
                made.append(instance)
            instance.free -= slices
            instance.compute.append(profile if slices == total else name)
    return tuple(made)


def goals(made: Sequence[FilledInstance]) -> tuple[InstanceGoal, ...]:
    """The same in the model's words."""
    return tuple(InstanceGoal(profile=each.profile, compute=tuple(each.compute)) for each in made)


def counts(wanted: Sequence[InstanceGoal]) -> dict[str, int]:
    """Compute instances by name; an instance without any counts as one of its full size."""
    names = (name for goal in wanted for name in goal.compute or (goal.profile,))
    return dict(Counter(names))


def _by_size(counts: Mapping[str, int]) -> list[tuple[str, tuple[str, int, int]]]:
    """Names with their GPU instance, slices and slices of the instance, the largest first."""
    found = []
    for name in counts:
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is not a MIG profile")
        total = int(match["g"])
        found.append((name, (match["gi"], int(match["c"] or total), total)))
    return sorted(found, key=lambda each: -each[1][1])


def _profile(name: str) -> str:
    if not is_name(name):
        refuse("is not a MIG profile like 1g.10gb or 1c.3g.40gb")
    return name


Counts = dict[Annotated[Line, AfterValidator(_profile)], Annotated[int, Field(ge=0, le=64)]]


class MigEntryModel(ForeignEntryModel):
    """MIG of some GPUs; ``counts`` are of compute instances, those of full size included."""

    enabled: bool = Field(alias="mig-enabled")
    counts: Counts | None = Field(default=None, alias="mig-devices", max_length=64)

    @model_validator(mode="after")
    def _consistent(self) -> MigEntryModel:
        if self.enabled and self.counts is None:
            refuse("needs mig-devices where mig-enabled is true, {} for none")
        if not self.enabled and self.counts:
            refuse("there are no MIG devices where mig-enabled is false", "mig-devices")
        if self.counts and not any(self.counts.values()):
            refuse("all counts are 0: write {} for none", "mig-devices")
        return self


class MigFileModel(ForeignFileModel):
    """A file of named configurations."""

    configs: ForeignConfigs[MigEntryModel] = Field(alias="mig-configs")


def _rules(entry: MigEntryModel, targets: GpuTargets) -> list[LayoutRule]:
    """The rule of an entry; boards that cannot do it are left out, as the tool skips them."""
    made = instances(entry.counts or {})
    layout = GpuLayout(mig=entry.enabled, instances=goals(made) if entry.enabled else None)
    found = []
    for group in targets.of(entry):
        board = group.board
        why = (
            _why_not(board, layout, made)
            if board
            else _why_not_told(targets.unlisted(group.model), made)
        )
        if not why:
            found.append(group)
            targets.take(group)
        elif entry.ids or group.devices:
            targets.left_out.append(f"{group.model}: {why}")
    if not found and made:
        names = ", ".join(f"{name} × {count}" for name, count in (entry.counts or {}).items())
        targets.left_out.append(f"{names}: for no GPU")
    return [
        *rule_for(layout, [each for each in found if each.board]),
        *_unlisted_rules(layout, [each for each in found if not each.board], targets),
    ]


def _unlisted_rules(
    layout: GpuLayout, groups: Sequence[GpuGroup], targets: GpuTargets
) -> list[LayoutRule]:
    """A driver tells the compute instances of GPU instances that are there: none ahead."""
    if groups and layout.instances:
        bare = tuple(replace(each, compute=()) for each in layout.instances)
        layout = replace(layout, instances=bare)
        models = ", ".join(sorted({each.model for each in groups}))
        said = f"{models}: outside the catalogue, compute instances are not created ahead"
        targets.left_out.append(said)
    return rule_for(layout, groups)


def _why_not_told(gpus: Sequence[GpuFacts], made: Sequence[FilledInstance]) -> str:
    """Why no GPU outside the catalogue can do it, by the MIG profiles that its driver tells."""
    told = [each.mig for each in gpus if each.mig is not None]
    if not told:
        return "its driver reports no MIG"
    names = {each.name: None for mig in told for each in mig.profiles if each.starts}
    if made and not names:
        return "its driver reports no MIG profile while MIG is off: turn it on and probe the host"
    strange = next((each.profile for each in made if each.profile not in names), "")
    return f"its driver reports no MIG profile {strange}, but {', '.join(names)}" if strange else ""


def _why_not(board: Board, layout: GpuLayout, made: Sequence[FilledInstance]) -> str:
    if not board.mig_capable:
        return f"{board.key} has no MIG"
    if made and catalog.mig(board) is None:
        return "the catalogue does not know its GPU instances"
    fault = next(layout_rules.faults_of_board(board, layout, made), None)
    return fault.message if fault else ""


def _entries(spec: LayoutSpec, where: GpuFilter) -> list[dict[str, Any]]:
    """The last match wins there, the first here."""
    found = []
    for rule in reversed(spec.rules):
        if rule.layout.mig is None:
            where.note(rule, "says nothing of MIG")
            continue
        found += [{**target, **_mig(rule.layout)} for target in where.of(rule)]
        _note(rule, where)
    return found


def _mig(layout: GpuLayout) -> dict[str, Any]:
    if not layout.mig:
        return {"mig-enabled": False}
    return {"mig-enabled": True, "mig-devices": counts(layout.instances or ())}


_NOT_THERE = (
    *("vfs", "mixed_size", "scheduler", "scheduler_timing"),
    *("power_limit", "locked_clocks"),
)


def _note(rule: LayoutRule, where: GpuFilter) -> None:
    layout = rule.layout
    where.note_lost(rule, _NOT_THERE)
    if layout.mig and layout.instances is None:
        where.note(rule, "leaves GPU instances as they are, the file says that there are none")
    if any(not goal.compute for goal in layout.instances or ()):
        where.note(rule, "the tool creates a compute instance in each GPU instance")


FORMAT = ForeignFormat("mig-configs", MigFileModel, _rules, _entries)
