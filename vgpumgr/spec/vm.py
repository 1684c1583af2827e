"""``kind: VM``."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from vgpumgr.model.size import parse_bytes, parse_mib
from vgpumgr.model.template import NAMES, fill
from vgpumgr.model.vm import (
    Affinity,
    CloudInit,
    DiskMode,
    DiskSpec,
    NicSpec,
    NumaPolicy,
    PlacementPolicy,
    VmSpec,
)
from vgpumgr.spec.fields import (
    Bridge,
    DiskSize,
    Hugepages,
    Labels,
    Memory,
    Name,
    ObjectName,
    Strict,
    Text,
    refuse,
)
from vgpumgr.spec.gpu import MAX_GPUS, GpuModel, check_gpus
from vgpumgr.spec.queue import QueueField
from vgpumgr.spec.replicas import MAX_REPLICAS, replica_names


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
        )


class NicModel(Strict):
    """A NIC on a host bridge or on a libvirt network."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["bridge"]}, {"required": ["network"]}]}
    )

    bridge: Bridge | None = None
    network: ObjectName | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> NicModel:
        if (self.bridge is None) == (self.network is None):
            refuse("needs exactly one of bridge and network")
        return self


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
                fill(getattr(self, key) or "", dict.fromkeys(NAMES, ""))
            except ValueError as error:
                refuse(str(error), key)
        return self


class AffinityModel(Strict):
    """Where the VM may run; label maps match when every pair is present."""

    hosts: list[Name] = Field(default=[], max_length=1000)
    host_labels: Labels = Field(default={})
    together_with: Labels = Field(default={})
    apart_from: Labels = Field(default={})


class VmModel(Strict):
    """A VM, or ``replicas`` alike."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["VM"]
    name: Name
    replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    gpus: list[GpuModel] = Field(default=[], max_length=MAX_GPUS)
    vcpus: int = Field(default=2, ge=1, le=512)
    memory: Memory = "4GiB"
    disks: list[DiskModel] = Field(default=[], max_length=16)
    networks: list[NicModel] = Field(default=[], max_length=16)
    cloud_init: CloudInitModel | None = None
    firmware: Literal["uefi", "bios"] = "uefi"
    display: bool = False
    console: bool = False
    agent: bool = False
    autostart: bool = False
    pin_cpus: bool = False
    numa: Literal["none", "prefer", "require"] = "prefer"
    hugepages: Hugepages | None = None
    affinity: AffinityModel = AffinityModel()
    policy: Literal["breadth-first", "depth-first", "least-fragmentation"] | None = None
    labels: Labels = Field(default={})
    tenant: Name = "default"
    queue: QueueField = None

    @model_validator(mode="after")
    def _consistent(self) -> VmModel:
        check_gpus(self.gpus, display=self.display)
        if self.queue and not {self.name, *self.names()}.isdisjoint(self.queue.after):
            refuse("a VM cannot wait for its own end", "queue", "after")
        if self.hugepages and parse_bytes(self.memory) % parse_bytes(self.hugepages):
            refuse(f"memory {self.memory} is not a whole number of these pages", "hugepages")
        return self

    def names(self) -> list[str]:
        """Names of all VMs that this document asks for."""
        return [self.name] if self.replicas is None else replica_names(self.name, self.replicas)

    def value(self) -> VmSpec:
        """The VM in the model's words, under the document's own name."""
        nics = tuple(NicSpec(bridge=each.bridge, network=each.network) for each in self.networks)
        return VmSpec(
            name=self.name,
            vcpus=self.vcpus,
            memory_mib=parse_mib(self.memory),
            gpus=tuple(each.value() for each in self.gpus),
            disks=tuple(each.value() for each in self.disks),
            nics=nics,
            cloud_init=CloudInit(**self.cloud_init.model_dump()) if self.cloud_init else None,
            firmware=self.firmware,
            display=self.display,
            console=self.console,
            agent=self.agent,
            autostart=self.autostart,
            pin_cpus=self.pin_cpus,
            numa=NumaPolicy(self.numa),
            hugepage_kib=parse_bytes(self.hugepages) // 1024 if self.hugepages else None,
            affinity=self._affinity(),
            policy=PlacementPolicy(self.policy) if self.policy else None,
            labels=dict(self.labels),
            tenant=self.tenant,
            queue=self.queue.value(self.name) if self.queue else None,
        )

    def _affinity(self) -> Affinity:
        return Affinity(
            hosts=tuple(self.affinity.hosts),
            host_labels=dict(self.affinity.host_labels),
            together_with=dict(self.affinity.together_with),
            apart_from=dict(self.affinity.apart_from),
        )
