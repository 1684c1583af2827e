"""``kind: Fleet``: the hosts of a simulated fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from vgpumgr import catalog
from vgpumgr.model.host import Versions
from vgpumgr.model.simulated import DEFAULT_VERSIONS, SimBoard, SimFleet, SimHost
from vgpumgr.model.size import parse_mib
from vgpumgr.spec.fields import Bridge, Line, Memory, Name, ObjectName, Strict, refuse
from vgpumgr.spec.replicas import replica_names

MAX_HOSTS = 1000
_DEFAULT = SimHost(name="default")


def _known_board(key: str) -> str:
    if catalog.board(key) is None:
        raise PydanticCustomError("unknown_board", "unknown board")
    return key


class BoardModel(Strict):
    """``count`` GPUs of one board of the catalogue."""

    board: Annotated[Line, AfterValidator(_known_board)]
    count: int = Field(default=1, ge=1, le=16)


class VersionsModel(Strict):
    """What the simulated host says it runs."""

    kernel: Line = DEFAULT_VERSIONS.kernel
    libvirt: Line = DEFAULT_VERSIONS.libvirt
    qemu: Line = DEFAULT_VERSIONS.qemu
    driver: Line = DEFAULT_VERSIONS.driver


class SimHostModel(Strict):
    """One simulated host, or ``count`` alike."""

    name: Name
    count: int | None = Field(default=None, ge=1, le=MAX_HOSTS)
    gpus: list[BoardModel] = Field(default=[], max_length=16)
    cpus: int = Field(default=_DEFAULT.cpus, ge=1, le=4096)
    memory: Memory = "512GiB"
    numa_nodes: int = Field(default=_DEFAULT.numa_nodes, ge=1, le=64)
    hugepages_1gib: int = Field(default=_DEFAULT.hugepages_1gib, ge=0, le=65536)
    iommu: bool = _DEFAULT.iommu
    kvm: bool = _DEFAULT.kvm
    versions: VersionsModel = VersionsModel()
    pools: list[ObjectName] = Field(default=list(_DEFAULT.pools), max_length=64)
    networks: list[ObjectName] = Field(default=list(_DEFAULT.networks), max_length=64)
    bridges: list[Bridge] = Field(default=list(_DEFAULT.bridges), max_length=64)
    images: list[ObjectName] = Field(default=list(_DEFAULT.images), max_length=64)

    def names(self) -> list[str]:
        """Names of all hosts that this entry stands for."""
        return [self.name] if self.count is None else replica_names(self.name, self.count)

    def value(self) -> SimHost:
        """The host in the model's words, under the entry's own name."""
        return SimHost(
            name=self.name,
            boards=tuple(SimBoard(board=each.board, count=each.count) for each in self.gpus),
            cpus=self.cpus,
            memory_mib=parse_mib(self.memory),
            numa_nodes=self.numa_nodes,
            hugepages_1gib=self.hugepages_1gib,
            iommu=self.iommu,
            kvm=self.kvm,
            versions=Versions(**self.versions.model_dump()),
            pools=tuple(self.pools),
            networks=tuple(self.networks),
            bridges=tuple(self.bridges),
            images=tuple(self.images),
        )


class FleetModel(Strict):
    """All simulated hosts of one sim process."""

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Fleet"]
    name: Name
    hosts: list[SimHostModel] = Field(min_length=1, max_length=MAX_HOSTS)

    @model_validator(mode="after")
    def _bounded(self) -> FleetModel:
        if sum(each.count or 1 for each in self.hosts) > MAX_HOSTS:
            refuse(f"a fleet has at most {MAX_HOSTS} hosts", "hosts")
        return self

    def value(self) -> SimFleet:
        """The fleet in the model's words, counts expanded."""
        hosts = tuple(
            replace(value, name=name)
            for entry in self.hosts
            for value in (entry.value(),)
            for name in entry.names()
        )
        return SimFleet(name=self.name, hosts=hosts)
