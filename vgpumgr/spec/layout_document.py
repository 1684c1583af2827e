"""``kind: Layout``: the declared partitioning of the GPUs of hosts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from vgpumgr.model.formats import PciAddress
from vgpumgr.model.layout import (
    DRIVERS_TIMING,
    POWER_DEFAULT,
    UNLOCKED,
    VFS_MAX,
    ClockRange,
    GpuLayout,
    InstanceGoal,
    LayoutRule,
    LayoutSpec,
    Scheduler,
    SchedulerTiming,
)
from vgpumgr.spec import layout_rules
from vgpumgr.spec.fields import (
    NAMED,
    RULES,
    Labels,
    Line,
    Name,
    Strict,
    name_or_rules,
    refuse,
)

MAX_RULES = 64
_PARTS = ("mig", "vfs", "mixed_size", "instances", "scheduler", "power")
_MAX_VFS = 256


def _keys(value: object) -> object:
    """The key of one board as a list of one."""
    keys = [value] if isinstance(value, str) else value
    for number, key in enumerate(keys if isinstance(keys, list) else ()):
        if isinstance(key, str) and not layout_rules.is_board_key(key):
            at = () if keys is not value else (number,)
            raise PydanticCustomError("unknown_board", "unknown board", {"name": key, "at": at})
    return keys


def _count(value: object) -> object:
    if isinstance(value, str) and value != "max":
        refuse("must be max, or a whole number")
    return VFS_MAX if value == "max" else value


def _counted(value: object) -> object:
    if isinstance(value, int) and value < 0:
        refuse("must be max, or at least 0")
    return value


def _watts(value: object) -> object:
    if isinstance(value, str) and value != "default":
        refuse("must be default, or whole watts")
    return POWER_DEFAULT if value == "default" else value


def _positive_watts(value: object) -> object:
    if value == POWER_DEFAULT:
        refuse("must be default, or at least 1 (watts)")
    return value


def _clock_range(value: object) -> object:
    if isinstance(value, str) and value != "default":
        refuse("must be default, or two whole MHz: [210, 1410]")
    return list(UNLOCKED) if value == "default" else value


def _address(value: object) -> object:
    if not isinstance(value, str):
        refuse('is not a PCI address: write text like "0000:41:00.0"')
    try:
        return str(PciAddress.parse(value))
    except ValueError:
        refuse("is not a PCI address like 0000:41:00.0")


Models = Annotated[
    list[Line],
    BeforeValidator(_keys),
    Field(max_length=64),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Device = Annotated[
    str,
    BeforeValidator(_address),
    WithJsonSchema(
        {"type": "string", "pattern": "^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}[.][0-7]$"}
    ),
]
VfCount = Annotated[
    int,
    BeforeValidator(_count),
    BeforeValidator(_counted),
    Field(le=_MAX_VFS),
    WithJsonSchema(
        {"anyOf": [{"const": "max"}, {"type": "integer", "minimum": 0, "maximum": _MAX_VFS}]}
    ),
]


class InstanceModel(Strict):
    """GPU instances of one profile; ``compute`` names the compute instances made in each."""

    profile: Line
    count: int = Field(default=1, ge=1, le=16)
    start: int | None = Field(default=None, ge=0, le=63)
    compute: list[Line] = Field(default=[], max_length=16)

    @model_validator(mode="after")
    def _one_place(self) -> InstanceModel:
        if self.start is not None and self.count > 1:
            refuse("only one instance can begin there: list each with its own start", "start")
        return self

    def value(self) -> tuple[InstanceGoal, ...]:
        """The instances in the model's words, ``count`` expanded."""
        goal = InstanceGoal(profile=self.profile, start=self.start, compute=tuple(self.compute))
        return (goal,) * self.count


Watts = Annotated[
    int,
    BeforeValidator(_watts),
    Field(ge=0, le=100_000),
    WithJsonSchema({"anyOf": [{"const": "default"}, {"type": "integer", "minimum": 1}]}),
]
Clocks = Annotated[
    list[int],
    BeforeValidator(_clock_range),
    Field(max_length=2),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "default"},
                {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0},
                    "minItems": 2,
                    "maxItems": 2,
                },
            ]
        }
    ),
]


class PowerModel(Strict):
    """Power limit and locked clocks of a GPU; ``default`` leaves either to the board."""

    limit_watts: Annotated[Watts, BeforeValidator(_positive_watts)] | None = None
    locked_clocks: Clocks | None = None

    @model_validator(mode="after")
    def _consistent(self) -> PowerModel:
        found = self.locked_clocks
        if found and (len(found) != 2 or not 0 <= found[0] <= found[1] <= 100_000):
            refuse("must be the least and the most MHz: [210, 1410]", "locked_clocks")
        if self.limit_watts is None and found is None:
            refuse("says nothing: add limit_watts or locked_clocks")
        return self

    def clocks(self) -> ClockRange | None:
        """The range in the model's words."""
        return None if self.locked_clocks is None else tuple(self.locked_clocks)


class TimingModel(Strict):
    """How the scheduler deals out time: slices of one length, or a frequency that adapts."""

    time_slice_ms: float | None = Field(default=None, ge=1, le=30)
    frequency_hz: int | None = Field(default=None, ge=63, le=960)
    averaging: int = Field(default=33, ge=1, le=60)

    @model_validator(mode="after")
    def _one_of(self) -> TimingModel:
        if (self.time_slice_ms is None) == (self.frequency_hz is None):
            refuse("needs exactly one of time_slice_ms and frequency_hz")
        if self.time_slice_ms is not None and "averaging" in self.model_fields_set:
            refuse("is of a frequency: leave it out", "averaging")
        return self

    def value(self) -> SchedulerTiming:
        """The timing in the model's words."""
        if self.time_slice_ms is not None:
            return (round(self.time_slice_ms * 1000),)
        return (self.frequency_hz or 0, self.averaging)


Timing = Annotated[
    Annotated[Literal["default"], Tag(NAMED)] | Annotated[TimingModel, Tag(RULES)],
    Discriminator(name_or_rules),
]


class RuleModel(Strict):
    """The declared partitioning of some GPUs of a host; a part that is left out does not change.

    ``model`` is a key of the catalogue, or the PCI id (``10de:2324``) of a board outside it, which
    has the MIG profiles, places and vGPU types that its driver tells.
    """

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [part]} for part in _PARTS]}
    )

    model: Models = Field(default=[])
    devices: list[Device] = Field(default=[], max_length=64)
    mig: bool | None = None
    vfs: VfCount | None = None
    mixed_size: bool | None = None
    instances: list[InstanceModel] | None = Field(default=None, max_length=16)
    scheduler: Literal["best-effort", "equal-share", "fixed-share"] | None = None
    scheduler_timing: Timing | None = None
    power: PowerModel | None = None

    @model_validator(mode="after")
    def _consistent(self) -> RuleModel:
        if self.model and self.devices:
            refuse("leave it out: the addresses in devices say which GPUs", "model")
        layout = self.layout()
        if fault := next(layout_rules.contradictions(layout), None):
            refuse(fault.message, *fault.at)
        found = layout_rules.faults_of_models(
            self.model, self.devices, layout, self.instances or []
        )
        if fault := next(found, None):
            refuse(fault.message, *fault.at)
        return self

    def layout(self) -> GpuLayout:
        """The partitioning in the model's words; declared instances mean MIG mode."""
        instances = None
        if self.instances is not None:
            instances = tuple(goal for each in self.instances for goal in each.value())
        return GpuLayout(
            mig=True if instances and self.mig is None else self.mig,
            vfs=self.vfs,
            mixed_size=self.mixed_size,
            instances=instances,
            scheduler=Scheduler(self.scheduler) if self.scheduler else None,
            power_limit=self.power.limit_watts if self.power else None,
            locked_clocks=self.power.clocks() if self.power else None,
            scheduler_timing=self._timing(),
        )

    def _timing(self) -> SchedulerTiming | None:
        if self.scheduler_timing is None:
            return None
        found = self.scheduler_timing
        return found.value() if isinstance(found, TimingModel) else DRIVERS_TIMING

    def value(self) -> LayoutRule:
        """The rule in the model's words."""
        return LayoutRule(
            layout=self.layout(), models=tuple(self.model), devices=tuple(self.devices)
        )


class LayoutModel(Strict):
    """Partitioning of the GPUs of some hosts: the first rule that matches a GPU wins."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["hosts"]}, {"required": ["host_labels"]}]}
    )

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Layout"]
    name: Name
    hosts: list[Name] | None = Field(default=None, min_length=1, max_length=1000)
    host_labels: Labels | None = Field(default=None, min_length=1)
    gpus: list[RuleModel] = Field(min_length=1, max_length=MAX_RULES)

    @model_validator(mode="after")
    def _consistent(self) -> LayoutModel:
        if (self.hosts is None) == (self.host_labels is None):
            refuse("needs exactly one of hosts and host_labels")
        self._refuse_unreachable()
        return self

    def _refuse_unreachable(self) -> None:
        first: dict[str, int] = {}
        for number, rule in enumerate(self.gpus):
            if "" in first:
                refuse(f"is never reached: gpus[{first['']}] is for every GPU", "gpus", number)
            for name in [*rule.model, *rule.devices] or [""]:
                if first.setdefault(name, number) != number:
                    refuse(f"{name} is in gpus[{first[name]}] already", "gpus", number)

    def value(self) -> LayoutSpec:
        """The layout in the model's words."""
        return LayoutSpec(
            name=self.name,
            rules=tuple(each.value() for each in self.gpus),
            hosts=tuple(self.hosts or ()),
            host_labels=dict(self.host_labels or {}),
        )
