"""``disks:``, ``networks:`` and ``screen:`` of a VM or a pool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from vgpumgr import catalog
from vgpumgr.model.domain import DiskTuning, NicTuning, Screen
from vgpumgr.model.formats import parse_bytes
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.port_rules import MOST_RULES, PortFilter, PortRule
from vgpumgr.model.vm_devices import CdSpec, DiskMode, DiskSpec, NicSpec
from vgpumgr.spec.fields import (
    NAMED,
    RULES,
    Bridge,
    DiskSize,
    Line,
    Name,
    ObjectName,
    Rate,
    Strict,
    name_or_rules,
    refuse,
)

MOST_HEADS = 16
_LEAST_PX, _MOST_PX = 320, 16_384
_SERIAL = r"^[A-Za-z0-9_.+-]{1,20}$"
_MOST_IOPS = 10**9
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")


def _unicast_mac(text: str) -> str:
    """In lower case. A group's address, and none, are no NIC's."""
    if _MAC.fullmatch(text) is None:
        refuse("is no MAC address: like 52:54:00:12:34:56")
    if int(text[:2], 16) & 1 or not int(text.replace(":", ""), 16):
        refuse("is a group's MAC address, or none at all: the first byte of a NIC's own is even")
    return text.lower()


class DiskModel(Strict):
    """One disk: fresh, or from an image of the storage pool."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"mode": {"enum": ["copy", "overlay"]}}, "required": ["mode"]},
            "then": {"required": ["image"]},
            "else": {"required": ["size"], "properties": {"image": {"type": "null"}}},
        }
    )

    size: DiskSize | None = None
    pool: ObjectName = "default"
    mode: Literal["fresh", "copy", "overlay"] = "fresh"
    image: ObjectName | None = None
    image_format: Literal["qcow2", "raw"] = "qcow2"
    format: Literal["qcow2", "raw"] = "qcow2"
    cache: Literal["none", "writeback", "writethrough", "directsync", "unsafe"] | None = None
    serial: Annotated[Line, Field(pattern=_SERIAL)] | None = None
    iops: int | None = Field(default=None, ge=1, le=_MOST_IOPS)
    bandwidth: Rate | None = None

    @model_validator(mode="after")
    def _consistent(self) -> DiskModel:
        if self.mode == "fresh":
            if self.image is not None:
                refuse("a fresh disk has no image: add mode: copy or mode: overlay", "image")
            if self.size is None:
                refuse("a fresh disk needs a size, like 20GiB")
        elif self.image is None:
            refuse(f"mode: {self.mode} needs an image: like cad@12, or a volume of the pool")
        if self.mode == "overlay" and self.format != "qcow2":
            refuse("an overlay is always qcow2", "format")
        return self

    def value(self) -> DiskSpec:
        """The disk in the model's words."""
        return DiskSpec(
            pool=self.pool,
            size_bytes=parse_bytes(self.size) if self.size else 0,
            mode=DiskMode(self.mode),
            image=self.image,
            image_format=self.image_format,
            format=self.format,
            tuning=self._tuning(),
        )

    def _tuning(self) -> DiskTuning:
        return DiskTuning(
            cache=self.cache or "",
            serial=self.serial or "",
            iops=self.iops,
            bytes_s=parse_bytes(self.bandwidth) if self.bandwidth else None,
        )


class CdModel(Strict):
    """A CD in a drive of its own: an image of format iso."""

    image: ObjectName
    pool: ObjectName = "default"
    boot: bool = False

    def value(self) -> CdSpec:
        """The CD in the model's words."""
        return CdSpec(image=self.image, pool=self.pool, boot=self.boot)


class PortFilterModel(Strict):
    """What reaches a guest over a NIC, in addition to the answers to what it asks for itself."""

    clean_traffic: bool = True
    allow: list[str] = Field(default_factory=list, max_length=MOST_RULES)

    @field_validator("allow")
    @classmethod
    def _known(cls, rules: list[str]) -> list[str]:
        for each in rules:
            try:
                PortRule.parse(each)
            except ValueError as error:
                refuse(str(error))
        return rules

    @property
    def name(self) -> str:
        """The name of the filter that it is."""
        return PortFilter(self.clean_traffic, tuple(map(PortRule.parse, self.allow))).name


NicFilter = Annotated[
    Annotated[ObjectName, Tag(NAMED)] | Annotated[PortFilterModel, Tag(RULES)],
    Discriminator(name_or_rules),
]


class SriovModel(Strict):
    """A VF of a NIC with SR-IOV as the VM's NIC: the guest has it past the host's network."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["physical"]}, {"required": ["network"]}]}
    )

    physical: Bridge | None = None
    network: Name | None = None
    vlan: int | None = Field(default=None, ge=1, le=4094)
    trust: bool = False
    spoof_check: bool = True

    @model_validator(mode="after")
    def _one_of_two(self) -> SriovModel:
        if (self.physical is None) == (self.network is None):
            refuse("needs exactly one of physical and network")
        return self

    def value(self) -> SriovNic:
        """The VF in the model's words."""
        return SriovNic(
            physical=self.physical or "",
            network=self.network or "",
            vlan=self.vlan,
            trust=self.trust,
            spoof_check=self.spoof_check,
        )


# What the host's side of a NIC does, which a VF has none of.
_NOT_OF_VFS = ("vlan", "filter", "inbound", "outbound")


class NicModel(Strict):
    """A NIC on a host bridge or on a libvirt network, or a VF of a NIC of the host's."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["bridge"]}, {"required": ["network"]}, {"required": ["sriov"]}]
        }
    )

    bridge: Bridge | None = None
    network: ObjectName | None = None
    sriov: SriovModel | None = None
    model: Literal["virtio", "e1000e"] = "virtio"
    vlan: int | None = Field(default=None, ge=1, le=4094)
    filter: NicFilter | None = None
    inbound: Rate | None = None
    outbound: Rate | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> NicModel:
        given = (self.bridge, self.network, self.sriov)
        if sum(each is not None for each in given) != 1:
            refuse("needs exactly one of bridge, network and sriov")
        if self.sriov is not None:
            self._refuse_of_vf()
        if self.vlan is not None and self.bridge is None:
            refuse("a libvirt network says itself which VLAN it is: leave it out", "vlan")
        return self

    def _refuse_of_vf(self) -> None:
        if self.model != "virtio":
            refuse("a VF is the NIC that it is: leave it out", "model")
        for key in _NOT_OF_VFS:
            if getattr(self, key) is not None:
                where = "say it in sriov" if key == "vlan" else "no host sees what a VF sends"
                refuse(f"is of a NIC on a bridge or a network: {where}", key)

    def value(self) -> NicSpec:
        """The NIC in the model's words."""
        if self.sriov is not None:
            return NicSpec(sriov=self.sriov.value())
        tuning = NicTuning(
            model=self.model,
            vlan=self.vlan,
            filter=_filter_name(self.filter),
            inbound_kib_s=_kib(self.inbound),
            outbound_kib_s=_kib(self.outbound),
        )
        return NicSpec(bridge=self.bridge, network=self.network, tuning=tuning)


def _filter_name(wanted: str | PortFilterModel | None) -> str:
    """The name of a filter of the host's, or of the one that these rules are."""
    if isinstance(wanted, PortFilterModel):
        return wanted.name
    return wanted or ""


class OwnNicModel(NicModel):
    """A NIC of one VM alone, which may have a MAC address of the user's."""

    mac: Annotated[Line, AfterValidator(_unicast_mac)] | None = None

    def value(self) -> NicSpec:
        """The NIC in the model's words."""
        return replace(super().value(), mac=self.mac or "")


def _kib(text: str | None) -> int | None:
    return parse_bytes(text) // 1024 if text else None


def _resolution(text: str) -> str:
    width, _, height = text.partition("x")
    sizes = [int(each) for each in (width, height) if each.isascii() and each.isdecimal()]
    if len(sizes) != 2 or not all(_LEAST_PX <= each <= _MOST_PX for each in sizes):
        refuse(f"is not a width and a height of {_LEAST_PX} to {_MOST_PX} pixels: like 1920x1080")
    return text


Resolution = Annotated[
    str,
    AfterValidator(_resolution),
    Field(json_schema_extra={"pattern": "^[0-9]{3,5}x[0-9]{3,5}$"}),
]


class ScreenModel(Strict):
    """Heads and resolution of the screen."""

    heads: int = Field(default=1, ge=1, le=MOST_HEADS)
    resolution: Resolution | None = None

    def value(self) -> Screen:
        """The screen in the model's words."""
        width, height = map(int, self.resolution.split("x")) if self.resolution else (0, 0)
        return Screen(heads=self.heads, width=width, height=height)

    def check(self, profiles: Sequence[str]) -> None:
        """Refuse what none of the named vGPU types can show; of an unknown one nothing is said."""
        wanted = self.value()
        for profile in profiles[:1]:  # the first vGPU shows it
            limits = catalog.screen_limits(profile)
            most = max((each.heads for each in limits), default=wanted.heads)
            if wanted.heads > most:
                refuse(f"{profile} has {most} at most", "screen", "heads")
            wide = max((each.width for each in limits), default=wanted.width)
            high = max((each.height for each in limits), default=wanted.height)
            if wanted.width > wide or wanted.height > high:
                refuse(f"{profile} shows {wide}x{high} at most", "screen", "resolution")
