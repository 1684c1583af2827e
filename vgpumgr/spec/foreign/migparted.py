"""NVIDIA mig-parted's configuration files: MIG mode, GPU instances and compute instances.

Source: api/spec/v1/spec.go and pkg/mig/config/config.go of NVIDIA/mig-parted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from vgpumgr import catalog
from vgpumgr.catalog import Board
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import GpuLayout, LayoutRule, LayoutSpec
from vgpumgr.spec import board_rules
from vgpumgr.spec.fields import Line, refuse
from vgpumgr.spec.foreign import compute
from vgpumgr.spec.foreign.boards import Group, Targets, rule_for
from vgpumgr.spec.foreign.compute import Filled
from vgpumgr.spec.foreign.files import Configs, EntryModel, FileModel
from vgpumgr.spec.foreign.format import Format
from vgpumgr.spec.foreign.where import Where


def _profile(name: str) -> str:
    if not compute.is_name(name):
        refuse("is not a MIG profile like 1g.10gb or 1c.3g.40gb")
    return name


Counts = dict[Annotated[Line, AfterValidator(_profile)], Annotated[int, Field(ge=0, le=64)]]


class MigEntryModel(EntryModel):
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


class MigFileModel(FileModel):
    """A file of named configurations."""

    configs: Configs[MigEntryModel] = Field(alias="mig-configs")


def _rules(entry: MigEntryModel, targets: Targets) -> list[LayoutRule]:
    """The rule of an entry; boards that cannot do it are left out, as the tool skips them."""
    made = compute.instances(entry.counts or {})
    layout = GpuLayout(mig=entry.enabled, instances=compute.goals(made) if entry.enabled else None)
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
    layout: GpuLayout, groups: Sequence[Group], targets: Targets
) -> list[LayoutRule]:
    """A driver tells the compute instances of GPU instances that are there: none ahead."""
    if groups and layout.instances:
        bare = tuple(replace(each, compute=()) for each in layout.instances)
        layout = replace(layout, instances=bare)
        models = ", ".join(sorted({each.model for each in groups}))
        said = f"{models}: outside the catalogue, compute instances are not created ahead"
        targets.left_out.append(said)
    return rule_for(layout, groups)


def _why_not_told(gpus: Sequence[GpuFacts], made: Sequence[Filled]) -> str:
    """Why no GPU outside the catalogue can do it, by the MIG profiles that its driver tells."""
    told = [each.mig for each in gpus if each.mig is not None]
    if not told:
        return "its driver reports no MIG"
    names = {each.name: None for mig in told for each in mig.profiles if each.starts}
    if made and not names:
        return "its driver reports no MIG profile while MIG is off: turn it on and probe the host"
    strange = next((each.profile for each in made if each.profile not in names), "")
    return f"its driver reports no MIG profile {strange}, but {', '.join(names)}" if strange else ""


def _why_not(board: Board, layout: GpuLayout, made: Sequence[Filled]) -> str:
    if not board.mig_capable:
        return f"{board.key} has no MIG"
    if made and catalog.mig(board) is None:
        return "the catalogue does not know its GPU instances"
    fault = next(board_rules.of_board(board, layout, made), None)
    return fault.message if fault else ""


def _entries(spec: LayoutSpec, where: Where) -> list[dict[str, Any]]:
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
    return {"mig-enabled": True, "mig-devices": compute.counts(layout.instances or ())}


def _note(rule: LayoutRule, where: Where) -> None:
    layout = rule.layout
    where.note_lost(rule, ("vfs", "mixed_size", "scheduler"))
    if layout.mig and layout.instances is None:
        where.note(rule, "leaves GPU instances as they are, the file says that there are none")
    if any(not goal.compute for goal in layout.instances or ()):
        where.note(rule, "the tool creates a compute instance in each GPU instance")


FORMAT = Format("mig-configs", MigFileModel, _rules, _entries)
