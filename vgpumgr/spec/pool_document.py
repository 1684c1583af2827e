"""``kind: Pool``, with its schedules, entitlement, updates and autoheal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vgpumgr.model.formats import parse_bytes
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.pool import (
    MAX_DESKTOPS,
    Autoheal,
    Entitlement,
    Naming,
    PoolKind,
    PoolSpec,
    ScaleIn,
    Size,
    Timeouts,
    UpdatePolicy,
    UpdateWhen,
)
from vgpumgr.model.pool_schedule import DAYS, Schedule, WeekHours, overlap
from vgpumgr.model.profile_disk import ProfileDiskSpec
from vgpumgr.model.vm import NAME, VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec
from vgpumgr.spec.fields import (
    DiskSize,
    Duration,
    Line,
    Name,
    ObjectName,
    Percent,
    Strict,
    refuse,
    seconds,
    share,
)
from vgpumgr.spec.scale_keys import ScaleModel
from vgpumgr.spec.vm_devices import DiskModel, NicModel
from vgpumgr.spec.vm_document import (
    MAX_GPUS,
    GpuModel,
    MachineModel,
    Priority,
    check_gpus,
)

_CLOCK = r"([01]?[0-9]|2[0-3]):[0-5][0-9]|24:00"


def _clock(text: str) -> str:
    if re.fullmatch(_CLOCK, text) is None:
        refuse("is not a time of day: write hours and minutes, like 8:30")
    return text


def _days(text: str) -> str:
    if not set(text.split("-", 1)) <= set(DAYS):
        refuse(f"is not a day: write {', '.join(DAYS)}, or days like mon-fri")
    return text


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (KeyError, OSError, ValueError):  # not found, a folder, no name of a zone at all
        refuse("is not a time zone that this machine knows: write one like Europe/Berlin")
    return text


_Clock = Annotated[
    str, AfterValidator(_clock), Field(json_schema_extra={"pattern": f"^({_CLOCK})$"})
]
_Day = "|".join(DAYS)
_Days = Annotated[
    str,
    AfterValidator(_days),
    Field(json_schema_extra={"pattern": f"^({_Day})(-({_Day}))?$"}),
]
Zone = Annotated[Line, AfterValidator(_zone)]


class HoursModel(Strict):
    """Hours of some days."""

    days: list[_Days] = Field(min_length=1, max_length=7)
    start: _Clock = Field(alias="from")
    end: _Clock = Field(alias="to")

    def hours(self) -> WeekHours:
        """The hours in the model's words."""
        return WeekHours(
            days=tuple(sorted({day for days in self.days for day in _each(days)})),
            start=_minutes(self.start),
            end=_minutes(self.end),
        )


class ScheduleModel(HoursModel):
    """Hours of some days, with the numbers of desktops in them."""

    min: int = Field(ge=0)
    spare: int = Field(ge=0)
    except_on: Name | None = Field(default=None, alias="except")

    def value(self) -> Schedule:
        """The schedule in the model's words."""
        hours = self.hours()
        return Schedule(
            days=hours.days,
            start=hours.start,
            end=hours.end,
            min=self.min,
            spare=self.spare,
            except_on=self.except_on or "",
        )


def check_schedules(schedules: Sequence[ScheduleModel], most: int) -> None:
    """Refuse two that hold at one time, and one that asks for more than ``most``."""
    values = [each.value() for each in schedules]
    for number, value in enumerate(values):
        for what in ("min", "spare"):
            if (count := getattr(value, what)) > most:
                refuse(f"{count} is more than max: {most}", "schedules", number, what)
        for earlier, other in enumerate(values[:number]):
            if (minute := overlap(other, value)) is not None:
                when = f"{DAYS[minute // 1440]} {minute % 1440 // 60}:{minute % 60:02d}"
                refuse(f"overlaps schedules[{earlier}] on {when}", "schedules", number)


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return (int(hours) * 60 + int(minutes)) % 1440


def _each(days: str) -> list[int]:
    """``fri-mon`` → 4, 5, 6, 0."""
    first, last = (DAYS.index(part) for part in (days.split("-") * 2)[:2])
    return [(first + step) % 7 for step in range((last - first) % 7 + 1)]


_IMAGE = rf"{NAME}@[A-Za-z0-9][A-Za-z0-9._-]{{0,62}}"


def is_image(text: str) -> bool:
    """Whether it is an image with its version: ``cad@12``."""
    return re.fullmatch(_IMAGE, text) is not None


def _image(text: str) -> str:
    if not is_image(text):
        refuse("is not an image with its version: write one like cad@12")
    return text


def _naming(text: str) -> str:
    naming = Naming.parse(text)
    if naming is None or re.fullmatch(NAME, naming.name(1)) is None:
        refuse("is not a pattern of names: write one like cad-{n} or cad-{n:3}")
    return text


Image = Annotated[str, AfterValidator(_image), Field(json_schema_extra={"pattern": f"^{_IMAGE}$"})]
NamePattern = Annotated[
    str,
    AfterValidator(_naming),
    Field(json_schema_extra={"pattern": r"^[a-z0-9-]*\{n(:[1-5])?\}[a-z0-9-]*$"}),
]


class EntitlementModel(Strict):
    """Users and groups who may have a desktop."""

    users: list[Line] = Field(default=[], max_length=10_000)
    groups: list[Line] = Field(default=[], max_length=1000)
    per_user: int = Field(default=1, ge=1, le=100)

    @model_validator(mode="after")
    def _somebody(self) -> EntitlementModel:
        if not self.users and not self.groups:
            refuse("entitles nobody: name users or groups")
        return self

    def value(self) -> Entitlement:
        """The entitlement in the model's words."""
        return Entitlement(
            users=frozenset(self.users), groups=frozenset(self.groups), per_user=self.per_user
        )


class UpdateModel(Strict):
    """How a new image comes to the pool's desktops."""

    when: Literal["at-logoff", "at-once"] = "at-logoff"
    step: int = Field(default=5, ge=1, le=MAX_DESKTOPS)
    min_ready: int | None = Field(default=None, ge=0, le=MAX_DESKTOPS)
    soak: Duration = "5m"
    max_failures: int = Field(default=1, ge=1, le=MAX_DESKTOPS)
    rollback: bool = True

    def value(self) -> UpdatePolicy:
        """The policy in the model's words."""
        return UpdatePolicy(
            when=UpdateWhen(self.when),
            step=self.step,
            min_ready=self.min_ready,
            soak_s=float(seconds(self.soak)),
            max_failures=self.max_failures,
            rollback=self.rollback,
        )


class ProfileDiskModel(Strict):
    """A disk of each user's own, attached to the desktop that the user is on."""

    size: DiskSize
    pool: ObjectName
    keep: bool = True

    def value(self) -> ProfileDiskSpec:
        """The disk in the model's words."""
        return ProfileDiskSpec(size_bytes=parse_bytes(self.size), pool=self.pool, keep=self.keep)


class AutohealModel(Strict):
    """When a broken desktop is recreated, and how often."""

    after: Duration = "1m"
    attempts: int = Field(default=5, ge=0, le=100)

    def value(self) -> Autoheal:
        """The terms in the model's words."""
        return Autoheal(after_s=float(seconds(self.after)), attempts=self.attempts)


def _said(value: object) -> object:
    """``true`` is a mapping with nothing in it, ``false`` means never."""
    if isinstance(value, bool):
        return {} if value else {"attempts": 0}
    return value


AutohealField = Annotated[
    AutohealModel, BeforeValidator(_said, json_schema_input_type=bool | AutohealModel)
]


_MAX_NAME = 63


class PoolModel(MachineModel):
    """Identical desktops, for users who come and go.

    The first disk is an overlay of ``image``, of ``image_size`` or the image's own; ``disks`` are
    more of them.
    """

    kind: Literal["Pool"]
    image: Image
    image_size: DiskSize | None = None
    storage_pool: ObjectName = "default"
    gpus: list[GpuModel] = Field(min_length=1, max_length=MAX_GPUS)
    disks: list[DiskModel] = Field(default=[], max_length=15)
    networks: list[NicModel] = Field(default=[], max_length=16)
    names: NamePattern | None = None
    assignment: Literal["floating", "dedicated"] = "floating"
    entitlement: EntitlementModel
    min: int = Field(default=0, ge=0, le=MAX_DESKTOPS)
    spare: int = Field(default=1, ge=0, le=MAX_DESKTOPS)
    max: int = Field(ge=1, le=MAX_DESKTOPS)
    time_zone: Zone = "UTC"
    schedules: list[ScheduleModel] = Field(default=[], max_length=64)
    priority: Priority = 0
    update: UpdateModel = UpdateModel()
    idle_timeout: Duration | None = None
    disconnect_timeout: Duration | None = None
    autoheal: AutohealField = AutohealModel()
    scale_in: Literal["delete", "shelve"] = "delete"
    prewarm: Duration = "15m"
    shrink_after: Duration = "15m"
    scale: ScaleModel | None = None
    idle_below: Percent | None = None
    learned_hours: bool = False
    profile_disk: ProfileDiskModel | None = None

    @model_validator(mode="after")
    def _consistent(self) -> PoolModel:
        check_gpus(self.gpus, display=self.display)
        for what in ("min", "spare"):
            if (count := getattr(self, what)) > self.max:
                refuse(f"{count} is more than max: {self.max}", what)
        if (self.update.min_ready or 0) >= self.max:
            refuse(
                f"as many as max: {self.max} always ready, none to update", "update", "min_ready"
            )
        check_schedules(self.schedules, self.max)
        self._check_measured()
        if len(longest := self.naming().name(self.max)) > _MAX_NAME:
            where = "names" if self.names else "name"
            refuse(f"{longest} is longer than {_MAX_NAME} characters", where)
        return self

    def _check_measured(self) -> None:
        """Refuse what is never measured: a whole GPU tells its host nothing."""
        whole = any(each.profile == PASSTHROUGH_PROFILE for each in self.gpus)
        why = f"{PASSTHROUGH_PROFILE} gives a desktop its whole GPU, which tells the host nothing"
        if self.idle_below is not None and whole:
            refuse(f"is never measured: {why}", "idle_below")
        if whole and self.scale is not None:
            self.scale.refuse_measured(f"is never measured: {why}")

    def naming(self) -> Naming:
        """The pattern of its desktops' names: the pool's name and a number, unless it is said."""
        return (Naming.parse(self.names) if self.names else None) or Naming(f"{self.name}-", 2)

    def desktop_names(self) -> list[str]:
        """The names that its desktops take as long as no other VM has one of them."""
        return [self.naming().name(number) for number in range(1, self.max + 1)]

    def value(self) -> PoolSpec:
        """The pool in the model's words."""
        return PoolSpec(
            name=self.name,
            image=self.image,
            desktop=self._desktop(),
            naming=self.naming(),
            size=Size(min=self.min, spare=self.spare, max=self.max),
            entitlement=self.entitlement.value(),
            kind=PoolKind(self.assignment),
            schedules=tuple(each.value() for each in self.schedules),
            zone=self.time_zone,
            priority=self.priority,
            update=self.update.value(),
            timeouts=Timeouts(
                idle_s=_seconds(self.idle_timeout),
                disconnect_s=_seconds(self.disconnect_timeout),
                idle_below=share(self.idle_below) if self.idle_below else None,
            ),
            autoheal=self.autoheal.value(),
            scale_in=ScaleIn(self.scale_in),
            prewarm_s=float(seconds(self.prewarm)),
            shrink_after_s=float(seconds(self.shrink_after)),
            scale=self.scale.policy() if self.scale else None,
            learned_hours=self.learned_hours,
            profile_disk=self.profile_disk.value() if self.profile_disk else None,
        )

    def _desktop(self) -> VmSpec:
        """A desktop is a VM like any other."""
        system = DiskSpec(
            pool=self.storage_pool,
            size_bytes=parse_bytes(self.image_size) if self.image_size else 0,
            mode=DiskMode.OVERLAY,
            image=self.image,
        )
        vm = self.spec(self.networks)
        return replace(vm, disks=(system, *vm.disks))


def _seconds(text: str | None) -> float | None:
    return float(seconds(text)) if text else None
