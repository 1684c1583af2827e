"""``kind: Pool``."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from vgpumgr.model.pool import MAX_DESKTOPS, Naming, PoolKind, PoolSpec, ScaleIn, Size, Timeouts
from vgpumgr.model.size import parse_bytes
from vgpumgr.model.vm import DiskMode, DiskSpec, VmSpec
from vgpumgr.spec.durations import Duration, seconds
from vgpumgr.spec.fields import DiskSize, Labels, Memory, Name, ObjectName, Strict, refuse
from vgpumgr.spec.gpu import MAX_GPUS, GpuModel, check_gpus
from vgpumgr.spec.hours import ScheduleModel, Zone, check_schedules
from vgpumgr.spec.pool_terms import (
    AutohealField,
    AutohealModel,
    EntitlementModel,
    Image,
    NamePattern,
    UpdateModel,
)
from vgpumgr.spec.queue import Priority
from vgpumgr.spec.vm import AffinityModel, CloudInitModel, DiskModel, NicModel, VmModel

_MAX_NAME = 63


class PoolModel(Strict):
    """Identical desktops, for users who come and go.

    The first disk is an overlay of ``image``, of ``image_size`` or the image's own; ``disks`` are
    more of them.
    """

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Pool"]
    name: Name
    image: Image
    image_size: DiskSize | None = None
    storage_pool: ObjectName = "default"
    gpus: list[GpuModel] = Field(min_length=1, max_length=MAX_GPUS)
    vcpus: int = Field(default=2, ge=1, le=512)
    memory: Memory = "4GiB"
    disks: list[DiskModel] = Field(default=[], max_length=15)
    networks: list[NicModel] = Field(default=[], max_length=16)
    cloud_init: CloudInitModel | None = None
    firmware: Literal["uefi", "bios"] = "uefi"
    display: bool = False
    console: bool = False
    agent: bool = False
    affinity: AffinityModel = AffinityModel()
    policy: Literal["breadth-first", "depth-first", "least-fragmentation"] | None = None
    labels: Labels = Field(default={})
    tenant: Name = "default"
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
        if len(longest := self.naming().name(self.max)) > _MAX_NAME:
            where = "names" if self.names else "name"
            refuse(f"{longest} is longer than {_MAX_NAME} characters", where)
        return self

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
                idle_s=_seconds(self.idle_timeout), disconnect_s=_seconds(self.disconnect_timeout)
            ),
            autoheal=self.autoheal.value(),
            scale_in=ScaleIn(self.scale_in),
            prewarm_s=float(seconds(self.prewarm)),
            shrink_after_s=float(seconds(self.shrink_after)),
        )

    def _desktop(self) -> VmSpec:
        """A desktop is a VM like any other."""
        alike = set(type(self).model_fields) & set(VmModel.model_fields)
        fields = {each: getattr(self, each) for each in alike - {"api_version", "kind", "disks"}}
        system = DiskSpec(
            pool=self.storage_pool,
            size_bytes=parse_bytes(self.image_size) if self.image_size else 0,
            mode=DiskMode.OVERLAY,
            image=self.image,
        )
        vm = VmModel(apiVersion=self.api_version, kind="VM", **fields).value()
        return replace(vm, disks=(system, *(each.value() for each in self.disks)))


def _seconds(text: str | None) -> float | None:
    return float(seconds(text)) if text else None
