"""``kind: Fleet``: the hosts of a simulated fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from vgpumgr import catalog
from vgpumgr.model.formats import parse_mib
from vgpumgr.model.host import Versions
from vgpumgr.model.sim_fleet import (
    DEFAULT_VERSIONS,
    UNLISTED,
    SimBoard,
    SimFleet,
    SimHost,
    SimNic,
)
from vgpumgr.spec.fields import (
    Bridge,
    Line,
    Memory,
    Name,
    ObjectName,
    Strict,
    refuse,
    replica_names,
)
from vgpumgr.spec.spec_file import did_you_mean, either

MAX_HOSTS = 5000
_MOST_GIM_VFS = 31
_DEFAULT = SimHost(name="default")


def _known_board(key: str) -> str:
    other = catalog.sriov_board(key)
    if catalog.board(key) is None and other is None and key not in UNLISTED:
        raise PydanticCustomError("unknown_board", "unknown board")
    if other is not None and not other.driver:
        refuse("cannot be simulated: no host driver of it is known")
    return key


def _known_fabric(key: str) -> str:
    known = [each.key for each in catalog.fabric_boards()]
    if key not in known:
        refuse(f"is not a NVSwitch board: write {either(known)}{did_you_mean(key, known)}")
    return key


def _sits_on(board: str, fabric: str) -> bool:
    known = catalog.board(board)
    return known is not None and catalog.fits_fabric(known.fabric, fabric)


class BoardModel(Strict):
    """``count`` GPUs of one board of the catalogue, or of one that it does not hold
    (``UNLISTED-VF``, ``UNLISTED-VGPU``, ``UNLISTED-MIG``).

    ``vfs`` is the module option of AMD's gim: the VFs that the driver makes when it loads.
    """

    board: Annotated[Line, AfterValidator(_known_board)]
    count: int = Field(default=1, ge=1, le=16)
    vfs: int | None = Field(default=None, ge=1, le=_MOST_GIM_VFS)

    @model_validator(mode="after")
    def _option_of_gim(self) -> BoardModel:
        if self.vfs is None:
            return self
        board = catalog.sriov_board(self.board)
        if board is None or board.driver != "gim":
            refuse(f"{self.board} has no such option: its VFs are turned on later", "vfs")
        counts = board.allowed_vf_counts
        if counts and self.vfs not in counts:
            refuse(f"{self.board} can have {either([str(each) for each in counts])} VFs", "vfs")
        return self


class VersionsModel(Strict):
    """What the simulated host says it runs."""

    kernel: Line = DEFAULT_VERSIONS.kernel
    libvirt: Line = DEFAULT_VERSIONS.libvirt
    qemu: Line = DEFAULT_VERSIONS.qemu
    driver: Line = DEFAULT_VERSIONS.driver


class SimNicModel(Strict):
    """A NIC with SR-IOV of a simulated host."""

    name: Bridge
    vfs: int = Field(default=4, ge=0, le=7)
    up: bool = True
    trusts: bool = True
    near_gpu: int = Field(default=-1, ge=-1, le=15)

    def value(self) -> SimNic:
        """The NIC in the model's words."""
        return SimNic(**self.model_dump())


class SimHostModel(Strict):
    """One simulated host, or ``count`` alike.

    ``tls`` False: it has no certificates, so that it takes running VMs in clear only. The volumes
    of ``shared_pools`` and ``ceph_pools``, which are among ``pools``, are seen by all hosts that
    share them.
    """

    name: Name
    count: int | None = Field(default=None, ge=1, le=MAX_HOSTS)
    gpus: list[BoardModel] = Field(default=[], max_length=16)
    cpus: int = Field(default=_DEFAULT.cpus, ge=1, le=4096)
    memory: Memory = "512GiB"
    numa_nodes: int = Field(default=_DEFAULT.numa_nodes, ge=1, le=64)
    hugepages_1gib: int = Field(default=_DEFAULT.hugepages_1gib, ge=0, le=65536)
    iommu: bool = _DEFAULT.iommu
    kvm: bool = _DEFAULT.kvm
    fabric: Annotated[Line, AfterValidator(_known_fabric)] | None = None
    versions: VersionsModel = VersionsModel()
    pools: list[ObjectName] = Field(default=list(_DEFAULT.pools), max_length=64)
    shared_pools: list[ObjectName] = Field(default=list(_DEFAULT.shared_pools), max_length=64)
    ceph_pools: list[ObjectName] = Field(default=list(_DEFAULT.ceph_pools), max_length=64)
    lvm_pools: list[ObjectName] = Field(default=list(_DEFAULT.lvm_pools), max_length=64)
    networks: list[ObjectName] = Field(default=list(_DEFAULT.networks), max_length=64)
    bridges: list[Bridge] = Field(default=list(_DEFAULT.bridges), max_length=64)
    filters: list[ObjectName] = Field(default=list(_DEFAULT.filters), max_length=64)
    tpm: bool = _DEFAULT.tpm
    secure_boot: bool = _DEFAULT.secure_boot
    images: list[ObjectName] = Field(default=list(_DEFAULT.images), max_length=64)
    cpu_model: Line = _DEFAULT.cpu_model
    tls: bool = _DEFAULT.tls
    nics: list[SimNicModel] = Field(default=[], max_length=16)

    @model_validator(mode="after")
    def _known_pools(self) -> SimHostModel:
        kinds = {
            "shared_pools": self.shared_pools,
            "ceph_pools": self.ceph_pools,
            "lvm_pools": self.lvm_pools,
        }
        found: dict[str, str] = {}
        for key, names in kinds.items():
            for name in names:
                if name not in self.pools:
                    refuse(f"{name} is none of its pools: {', '.join(self.pools)}", key)
                if name in found:
                    refuse(f"{name} is among its {found[name]}, too", key)
                found[name] = key
        return self

    @model_validator(mode="after")
    def _known_nics(self) -> SimHostModel:
        names = [each.name for each in self.nics]
        if len(set(names)) < len(names):
            refuse("has two NICs of one name", "nics")
        gpus = sum(each.count for each in self.gpus)
        for each in self.nics:
            if each.near_gpu >= gpus:
                refuse(f"{each.name} is near GPU {each.near_gpu} of {gpus}", "nics")
        return self

    @model_validator(mode="after")
    def _whole_fabric(self) -> SimHostModel:
        fabric = catalog.fabric(self.fabric) if self.fabric else None
        if fabric is None:
            return self
        found = sum(each.count for each in self.gpus if _sits_on(each.board, fabric.key))
        if found != fabric.gpus:
            refuse(
                f"{fabric.key} carries {fabric.gpus} GPUs of its own model, not {found}", "fabric"
            )
        return self

    def names(self) -> list[str]:
        """Names of all hosts that this entry stands for."""
        return [self.name] if self.count is None else replica_names(self.name, self.count)

    def value(self) -> SimHost:
        """The host in the model's words, under the entry's own name."""
        return SimHost(
            name=self.name,
            boards=tuple(
                SimBoard(board=each.board, count=each.count, vfs=each.vfs or 0)
                for each in self.gpus
            ),
            cpus=self.cpus,
            memory_mib=parse_mib(self.memory),
            numa_nodes=self.numa_nodes,
            hugepages_1gib=self.hugepages_1gib,
            iommu=self.iommu,
            kvm=self.kvm,
            fabric=self.fabric or "",
            versions=Versions(**self.versions.model_dump()),
            pools=tuple(self.pools),
            shared_pools=tuple(self.shared_pools),
            ceph_pools=tuple(self.ceph_pools),
            lvm_pools=tuple(self.lvm_pools),
            networks=tuple(self.networks),
            bridges=tuple(self.bridges),
            filters=tuple(self.filters),
            tpm=self.tpm,
            secure_boot=self.secure_boot,
            images=tuple(self.images),
            cpu_model=self.cpu_model,
            tls=self.tls,
            nics=tuple(each.value() for each in self.nics),
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
