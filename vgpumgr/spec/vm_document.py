"""``kind: VM``, with its ``gpus:`` and ``queue:``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from vgpumgr import catalog
from vgpumgr.model.domain import PASSED_CPU, Screen
from vgpumgr.model.formats import TEMPLATE_NAMES, fill_template, parse_bytes, parse_mib
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.rolling import Rolling
from vgpumgr.model.vm import (
    PRIORITIES,
    SWITCHES,
    Affinity,
    GpuRequest,
    NumaPolicy,
    PlacementPolicy,
    Terms,
    VmSpec,
)
from vgpumgr.model.vm_devices import MOST_CDS, CloudInit
from vgpumgr.spec.backup_keys import BackupModel
from vgpumgr.spec.fields import (
    MAX_REPLICAS,
    Duration,
    Hugepages,
    Labels,
    Line,
    Memory,
    Name,
    ObjectName,
    Strict,
    Text,
    refuse,
    replica_names,
    seconds,
)
from vgpumgr.spec.guest_keys import GuestModel, System, check_system, implied_switches
from vgpumgr.spec.scale_keys import GroupScaleModel
from vgpumgr.spec.vm_devices import CdModel, DiskModel, NicModel, OwnNicModel, ScreenModel

MAX_GPUS = 16
CPU_MODEL = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
_ANY = "any"
# A whole GPU and a plain VF are no vGPU: they have neither a display nor a limiter of the host's.
_NO_VGPU = {"passthrough", "pci-vf"}


def _renamed(policy: object) -> object:
    return "capacity-first" if policy == "least-fragmentation" else policy


Policy = Annotated[
    Literal["breadth-first", "capacity-first", "depth-first"], BeforeValidator(_renamed)
]


def _known_profile(name: str, info: ValidationInfo) -> str:
    profile = catalog.normalise(name)
    learned: frozenset[str] = (info.context or {}).get("profiles", frozenset())
    if profile not in catalog.profiles() and profile not in learned:
        raise PydanticCustomError("unknown_profile", "unknown profile")
    return profile


class GpuModel(Strict):
    """GPU parts of one profile or of one size, optionally only on one board."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["profile"]}, {"required": ["memory"]}]}
    )

    profile: Annotated[Line, AfterValidator(_known_profile)] | None = None
    memory: Memory | None = None
    framework: Literal["any", "passthrough", "mdev", "vfio-vf", "pci-vf"] = "any"
    frame_rate_limiter: bool | None = None
    count: int = Field(default=1, ge=1, le=MAX_GPUS)
    model: Line | Annotated[list[Line], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> GpuModel:
        if (self.profile is None) == (self.memory is None):
            refuse("needs exactly one of profile and memory")
        implied = self._implied_framework()
        if implied and self.framework not in {implied, _ANY}:
            refuse(f"profile {self.profile} is always {implied}: leave it out", "framework")
        if self.frame_rate_limiter is not None and not self.may_be_vgpu():
            refuse("only a vGPU has one: leave it out", "frame_rate_limiter")
        return self

    def may_be_vgpu(self) -> bool:
        """Whether it is a vGPU, or could become one by placement's choice."""
        return (self._implied_framework() or self.framework) not in _NO_VGPU

    def _implied_framework(self) -> str:
        """The framework that the profile's name alone decides, else nothing."""
        if self.profile == PASSTHROUGH_PROFILE:
            return "passthrough"
        if self.profile and catalog.parse_vf_profile(self.profile):
            return "pci-vf"
        return ""

    def value(self) -> GpuRequest:
        """The request in the model's words."""
        named = [self.model] if isinstance(self.model, str) else self.model or []
        models = tuple(dict.fromkeys(named))
        return GpuRequest(
            profile=self.profile or "",
            count=self.count,
            model=models[0] if len(models) == 1 else None,
            models=models if len(models) > 1 else (),
            memory_mib=parse_mib(self.memory) if self.memory else None,
            framework=None if self.framework == _ANY else self.framework,
            frame_rate_limiter=self.frame_rate_limiter,
        )


def check_gpus(gpus: Sequence[GpuModel], *, display: bool) -> None:
    """Refuse more GPU parts than a VM takes, and a display that none of them could have."""
    if sum(each.count for each in gpus) > MAX_GPUS:
        refuse(f"a VM takes at most {MAX_GPUS} GPUs in all", "gpus")
    if display and not any(each.may_be_vgpu() for each in gpus):
        refuse("needs at least one vGPU: a display is a vGPU's, not a whole GPU's", "display")


_HIGHEST = 1000


def _number(value: object) -> object:
    """``high`` → 100; a number is one."""
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    if isinstance(value, bool) or not isinstance(value, int):
        refuse(f"must be {', '.join(PRIORITIES)} or a whole number")
    return value


Priority = Annotated[
    int,
    BeforeValidator(_number, json_schema_input_type=Literal["high", "normal", "low"] | int),
    Field(ge=-_HIGHEST, le=_HIGHEST),
]


class QueueModel(Strict):
    """The terms on which a VM waits and runs."""

    priority: Priority = 0
    spot: bool = False
    runtime: Duration | None = None
    after: list[Name] = Field(default=[], max_length=64)
    together: bool = False
    await_hosts: bool = False

    def value(self, document: str) -> Terms:
        """The terms in the model's words; replicas of one ``document`` start together."""
        return Terms(
            priority=self.priority,
            spot=self.spot,
            runtime_s=float(seconds(self.runtime)) if self.runtime else None,
            after=tuple(dict.fromkeys(self.after)),
            together=document if self.together else "",
            await_hosts=self.await_hosts,
        )


class RollingModel(Strict):
    """How VMs that have to stop for a change are stopped: some at a time."""

    at_once: int = Field(ge=1, le=MAX_REPLICAS)
    wait_for: Literal["running", "agent"] = "running"
    within: Duration = "5m"

    def value(self, group: str) -> Rolling:
        """The same in the model's words, for the VMs of one document."""
        return Rolling(
            group=group,
            at_once=self.at_once,
            agent=self.wait_for == "agent",
            within_s=float(seconds(self.within)),
        )


def _said(value: object) -> object:
    """``true`` is a mapping with nothing in it, ``false`` none at all."""
    if isinstance(value, bool):
        return {} if value else None
    return value


QueueField = Annotated[
    QueueModel | None, BeforeValidator(_said, json_schema_input_type=bool | QueueModel)
]


class CloudInitModel(Strict):
    """Files of a NoCloud seed, as text; with ``template`` they may have ``{{ name }}`` in them."""

    user_data: Text | None = None
    network_config: Text | None = None
    pool: ObjectName = "default"
    template: bool = False

    @model_validator(mode="after")
    def _known_names(self) -> CloudInitModel:
        for key in ("user_data", "network_config") if self.template else ():
            try:
                fill_template(getattr(self, key) or "", dict.fromkeys(TEMPLATE_NAMES, ""))
            except ValueError as error:
                refuse(str(error), key)
        return self

    def value(self) -> CloudInit:
        """The seed in the model's words."""
        return CloudInit(**self.model_dump())


class AffinityModel(Strict):
    """Where the VM may run; label maps match when every pair is present."""

    hosts: list[Name] = Field(default=[], max_length=1000)
    host_labels: Labels = Field(default={})
    together_with: Labels = Field(default={})
    apart_from: Labels = Field(default={})

    def value(self) -> Affinity:
        """The affinity in the model's words."""
        return Affinity(**{**self.model_dump(), "hosts": tuple(self.hosts)})


class MachineModel(Strict):
    """What a VM and a desktop of a pool have in common."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: str
    name: Name
    gpus: list[GpuModel] = Field(default=[], max_length=MAX_GPUS)
    vcpus: int = Field(default=2, ge=1, le=512)
    memory: Memory = "4GiB"
    disks: list[DiskModel] = Field(default=[], max_length=16)
    cds: list[CdModel] = Field(default=[], max_length=MOST_CDS)
    cloud_init: CloudInitModel | None = None
    firmware: Literal["uefi", "bios"] = "uefi"
    display: bool = False
    console: bool = False
    screen: ScreenModel | None = None
    agent: bool = False
    audio: bool = False
    tpm: bool = False
    secure_boot: bool = False
    os: System | None = None
    guest: GuestModel | None = None
    cpu_model: Annotated[Line, Field(pattern=CPU_MODEL)] = PASSED_CPU
    cpu_shares: int | None = Field(default=None, ge=2, le=262144)
    affinity: AffinityModel = AffinityModel()
    policy: Policy | None = None
    labels: Labels = Field(default={})
    tenant: Name = "default"
    flavour: Name | None = None

    @model_validator(mode="after")
    def _suits_its_system(self) -> MachineModel:
        if self.os:
            refused = frozenset(each for each in SWITCHES if getattr(self, each, None) is False)
            check_system(
                self.os,
                refused=refused & self.model_fields_set,
                firmware=self.firmware,
                vcpus=self.vcpus,
                memory_mib=parse_mib(self.memory),
            )
        return self

    @model_validator(mode="after")
    def _prepares_its_guest(self) -> MachineModel:
        if self.guest is None:
            return self
        if "agent" in self.model_fields_set and not self.agent:
            refuse("guest is heard by it: leave agent out", "agent")
        seed = self.cloud_init
        text = seed.user_data if seed else None
        if seed and seed.template and text is not None:
            text = fill_template(text, dict.fromkeys(TEMPLATE_NAMES, "x"))
        self.guest.check(self.os, gpus=bool(self.gpus), firmware=self.firmware, user_data=text)
        return self

    @model_validator(mode="after")
    def _signed(self) -> MachineModel:
        if self.secure_boot and self.firmware != "uefi":
            refuse("only UEFI has it: leave firmware out", "secure_boot")
        return self

    @model_validator(mode="after")
    def _shows(self) -> MachineModel:
        if self.screen is not None and self.display:
            self.screen.check([each.profile for each in self.gpus if each.profile])
        return self

    def spec(self, networks: Sequence[NicModel], **more: Any) -> VmSpec:
        """The VM in the model's words, with what documents of one kind alone say as ``more``."""
        switches = type(self).model_fields.keys() & SWITCHES
        implied = {*implied_switches(self.os), *(["agent"] if self.guest else [])}
        if self.screen is not None and not self.display:
            implied.add("console")
        on: dict[str, Any] = {each: each in implied or getattr(self, each) for each in switches}
        return VmSpec(
            name=self.name,
            vcpus=self.vcpus,
            memory_mib=parse_mib(self.memory),
            gpus=tuple(each.value() for each in self.gpus),
            disks=tuple(each.value() for each in self.disks),
            cds=tuple(each.value() for each in self.cds),
            screen=self._screen(),
            nics=tuple(each.value() for each in networks),
            cloud_init=self._seed(),
            guest=self.guest.value() if self.guest else None,
            firmware=self.firmware,
            os=self.os or "",
            cpu_model=self.cpu_model,
            cpu_shares=self.cpu_shares,
            affinity=self.affinity.value(),
            policy=PlacementPolicy(self.policy) if self.policy else None,
            labels=dict(self.labels),
            tenant=self.tenant,
            flavour=self.flavour or "",
            **on,
            **more,
        )

    def _screen(self) -> Screen | None:
        """None where it is what a screen is anyhow."""
        screen = self.screen.value() if self.screen else Screen()
        return None if screen == Screen() else screen

    def _seed(self) -> CloudInit | None:
        """A guest that is prepared has a seed without being told."""
        if self.cloud_init is None:
            return CloudInit() if self.guest else None
        return self.cloud_init.value()


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _own_uuid(text: str) -> str:
    """In lower case. The nil UUID is no machine's."""
    if _UUID.fullmatch(text) is None or not int(text.replace("-", ""), 16):
        refuse("is no UUID of a machine: like 6a5f3c1e-0b7d-4c8e-9f21-3d4e5f6a7b8c")
    return text.lower()


class VmModel(MachineModel):
    """A VM, or ``replicas`` alike."""

    kind: Literal["VM"]
    networks: list[OwnNicModel] = Field(default=[], max_length=16)
    replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    autostart: bool = False
    pin_cpus: bool = False
    numa: Literal["none", "prefer", "require"] = "prefer"
    hugepages: Hugepages | None = None
    queue: QueueField = None
    rolling: RollingModel | None = None
    scale: GroupScaleModel | None = None
    uuid: Annotated[Line, AfterValidator(_own_uuid)] | None = None
    backup: BackupModel | None = None

    @model_validator(mode="after")
    def _consistent(self) -> VmModel:
        check_gpus(self.gpus, display=self.display)
        if self.rolling and self.rolling.wait_for == "agent" and not self.agent:
            refuse("needs agent: true, by which the guest is heard", "rolling", "wait_for")
        if self.queue and not {self.name, *self.names()}.isdisjoint(self.queue.after):
            refuse("a VM cannot wait for its own end", "queue", "after")
        if self.scale is not None:
            self._check_scale(self.scale)
        alike = self.replicas is not None or self.scale is not None
        if alike and any(nic.mac for nic in self.networks):
            refuse("one MAC address cannot be every replica's: leave it out", "networks")
        if alike and self.uuid:
            refuse("one UUID cannot be every replica's: leave it out", "uuid")
        if self.hugepages and parse_bytes(self.memory) % parse_bytes(self.hugepages):
            refuse(f"memory {self.memory} is not a whole number of these pages", "hugepages")
        return self

    def _check_scale(self, scale: GroupScaleModel) -> None:
        if self.replicas is not None:
            refuse("say it with scale: there are min replicas, and more by their load", "replicas")
        if self.queue is not None:
            refuse("replicas that scale do not wait in the queue: leave it out", "queue")
        if not self.gpus or any(each.profile == PASSTHROUGH_PROFILE for each in self.gpus):
            scale.refuse_measured("is never measured: only vGPUs tell their host what they do")

    def names(self) -> list[str]:
        """Names of all VMs that this document asks for, whatever their load."""
        if self.scale is not None:
            return replica_names(self.name, self.scale.min)
        return [self.name] if self.replicas is None else replica_names(self.name, self.replicas)

    def value(self) -> VmSpec:
        """The VM in the model's words, under the document's own name."""
        return self.spec(
            self.networks,
            numa=NumaPolicy(self.numa),
            hugepage_kib=parse_bytes(self.hugepages) // 1024 if self.hugepages else None,
            queue=self.queue.value(self.name) if self.queue else None,
            scale=self.scale.value(self.name) if self.scale else None,
            uuid=self.uuid or "",
            backup=self.backup.value() if self.backup else None,
        )
