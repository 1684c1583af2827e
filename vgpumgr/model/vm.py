"""VMs: the request with its queue terms, and the record that the ledger keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from vgpumgr.model.domain import PASSED_CPU, Screen
from vgpumgr.model.guest import GuestRecord, GuestSpec
from vgpumgr.model.load_scale import GroupScale
from vgpumgr.model.nic import SriovNic
from vgpumgr.model.port_rules import PortFilter
from vgpumgr.model.snapshot import NO_SNAPSHOTS, SnapshotTree
from vgpumgr.model.vm_backup import OwnBackups
from vgpumgr.model.vm_devices import CdSpec, CloudInit, DiskSpec, NicSpec

PRIORITIES: Mapping[str, int] = {"high": 100, "normal": 0, "low": -100}
"""Classes of priority by name; any other number is allowed, more comes first."""


def priority_name(priority: int) -> str:
    """The class of that number, or the number."""
    names = {number: name for name, number in PRIORITIES.items()}
    return names.get(priority, str(priority))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a VM waits and runs.

    ``spot``: it may be stopped for others, and waits again then. ``runtime_s`` is the longest it
    runs once started: then it is stopped; None where nobody knows. ``after`` are VMs that must have
    ended before it starts. VMs with the same ``together`` start in one turn or not at all.
    ``await_hosts``: it may wait even where no host of the fleet could ever hold it, for hosts to
    come.
    """

    priority: int = PRIORITIES["normal"]
    spot: bool = False
    runtime_s: float | None = None
    after: tuple[str, ...] = ()
    together: str = ""
    await_hosts: bool = False


def terms_text(terms: Terms) -> str:
    """``high, spot, at most 4 h, after a, b``; ``normal`` alone where nothing else is said."""
    words = [priority_name(terms.priority)]
    if terms.spot:
        words.append("spot")
    if terms.runtime_s is not None:
        words.append(f"at most {duration_text(terms.runtime_s)}")
    if terms.after:
        words.append(f"after {', '.join(terms.after)}")
    if terms.together:
        words.append(f"together with {terms.together}")
    if terms.await_hosts:
        words.append("for new hosts")
    return ", ".join(words)


def duration_text(seconds: float) -> str:
    """5400 → ``90 min``; 14400 → ``4 h``."""
    units = ((86_400, "d"), (3_600, "h"), (60, "min"))
    whole = round(seconds)
    size, unit = next((each for each in units if whole and whole % each[0] == 0), (1, "s"))
    return f"{whole // size} {unit}"


# What VMs, hosts and other documents may be called.
NAME = r"[a-z0-9][a-z0-9-]{0,62}"


class NumaPolicy(StrEnum):
    """Where memory and CPUs lie relative to the GPU."""

    NONE = "none"
    PREFER = "prefer"
    REQUIRE = "require"


class PlacementPolicy(StrEnum):
    """How GPUs are chosen among those that fit."""

    BREADTH_FIRST = "breadth-first"
    CAPACITY_FIRST = "capacity-first"
    DEPTH_FIRST = "depth-first"

    @classmethod
    def _missing_(cls, value: object) -> PlacementPolicy | None:
        """The name that ``capacity-first`` had until 0.1 is in ledgers and files."""
        return cls.CAPACITY_FIRST if value == "least-fragmentation" else None


DEFAULT_POLICY = PlacementPolicy.CAPACITY_FIRST
"""Where nobody chose: it gives out the most before it refuses (docs/placement-figures.md), and lets
VMs be alone on their GPUs where that costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """``count`` GPU parts, optionally only on a GPU of ``model`` or through one ``framework``.

    ``models`` are several models that do alike; it is empty where ``model`` says it all.
    By name (``profile``: a vGPU type, a MIG profile, ``passthrough``) or, with an empty
    ``profile``, by size: the smallest that has ``memory_mib``. ``frame_rate_limiter`` None leaves
    the driver's default.
    """

    profile: str = ""
    count: int = 1
    model: str | None = None
    memory_mib: int | None = None
    framework: str | None = None
    frame_rate_limiter: bool | None = None
    models: tuple[str, ...] = ()

    @property
    def any_of(self) -> tuple[str, ...]:
        """The models that will do, in the user's spelling; empty: any."""
        return self.models or ((self.model,) if self.model is not None else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Where a VM may run. Label maps match when every pair is present."""

    hosts: tuple[str, ...] = ()
    host_labels: Mapping[str, str] = field(default_factory=dict)
    together_with: Mapping[str, str] = field(default_factory=dict)
    apart_from: Mapping[str, str] = field(default_factory=dict)


class ChangeReach(StrEnum):
    """How far a change of one field of a VM's spec reaches."""

    LEDGER = "ledger"  # the ledger and placement alone
    FLAG = "flag"  # a flag of libvirt's beside the definition
    DEFINITION = "definition"  # the domain's definition, which takes effect at the next start
    GROWTH = "growth"  # volumes that grow, under a guest that runs or while it is off
    DISKS = "disks"  # volumes that are made or grown while it is off
    SEAT = "seat"  # the place on its host: GPU parts and CPUs are chosen again while it is off
    NEW_VM = "new VM"  # nothing that is there: only a new VM can have it


_LEDGER = {"reach": ChangeReach.LEDGER}
_FLAG = {"reach": ChangeReach.FLAG}
_DEFINITION = {"reach": ChangeReach.DEFINITION}
_SEAT = {"reach": ChangeReach.SEAT}
_NEW_VM = {"reach": ChangeReach.NEW_VM}


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSpec:
    """One VM as asked for. Memory in MiB; ``hugepage_kib`` None = ordinary pages. With ``queue`` it
    waits where there is no room for it, and ends when its guest powers off.

    ``display`` is a screen that its first vGPU shows, ``console`` one of an emulated adapter;
    ``screen`` says what either shows.
    ``agent``: a guest agent answers in it, over a channel of its own. ``audio``: a sound card.
    ``tpm``: an emulated TPM 2.0, whose state stays with the VM. ``cpu_model``: the host's own CPU
    (``host-passthrough``), ``host-model``, or one of libvirt's by name. ``cpu_shares`` is its
    weight (cgroups) where VMs want more CPU than there is, None: libvirt's default.
    ``os`` is its operating system, one of :mod:`vgpumgr.guests`; empty: not said.
    ``guest`` is what is made of it at its first boot, by the seed.
    ``scale``: it is a replica of a group of which there are as many as their load asks for.
    ``flavour`` is the one whose keys its file was filled with; empty: none. ``uuid`` is the machine
    UUID that its guest sees where it came with one; empty: it is the VM's id. ``backup`` is how it
    is backed up by itself; None: as targets say.
    """

    name: str = field(metadata=_NEW_VM)
    vcpus: int = field(metadata=_DEFINITION)
    memory_mib: int = field(metadata=_DEFINITION)
    gpus: tuple[GpuRequest, ...] = field(default=(), metadata=_SEAT)
    disks: tuple[DiskSpec, ...] = field(default=(), metadata=_NEW_VM)
    cds: tuple[CdSpec, ...] = field(default=(), metadata=_DEFINITION)
    nics: tuple[NicSpec, ...] = field(default=(), metadata=_DEFINITION)
    cloud_init: CloudInit | None = field(default=None, metadata=_NEW_VM)
    firmware: str = field(default="uefi", metadata=_DEFINITION)
    display: bool = field(default=False, metadata=_DEFINITION)
    console: bool = field(default=False, metadata=_DEFINITION)
    screen: Screen | None = field(default=None, metadata=_DEFINITION)
    agent: bool = field(default=False, metadata=_DEFINITION)
    audio: bool = field(default=False, metadata=_DEFINITION)
    tpm: bool = field(default=False, metadata=_DEFINITION)
    secure_boot: bool = field(default=False, metadata=_NEW_VM)
    os: str = field(default="", metadata=_DEFINITION)
    guest: GuestSpec | None = field(default=None, metadata=_NEW_VM)
    cpu_model: str = field(default=PASSED_CPU, metadata=_DEFINITION)
    cpu_shares: int | None = field(default=None, metadata=_DEFINITION)
    autostart: bool = field(default=False, metadata=_FLAG)
    pin_cpus: bool = field(default=False, metadata=_SEAT)
    numa: NumaPolicy = field(default=NumaPolicy.PREFER, metadata=_SEAT)
    hugepage_kib: int | None = field(default=None, metadata=_SEAT)
    affinity: Affinity = field(default_factory=Affinity, metadata=_LEDGER)
    policy: PlacementPolicy | None = field(default=None, metadata=_LEDGER)
    labels: Mapping[str, str] = field(default_factory=dict, metadata=_LEDGER)
    tenant: str = field(default="default", metadata=_LEDGER)
    queue: Terms | None = field(default=None, metadata=_LEDGER)
    flavour: str = field(default="", metadata=_LEDGER)
    scale: GroupScale | None = field(default=None, metadata=_LEDGER)
    uuid: str = field(default="", metadata=_NEW_VM)
    backup: OwnBackups | None = field(default=None, metadata=_LEDGER)

    @property
    def needed_images(self) -> tuple[tuple[str, str], ...]:
        """The images, as (pool, volume), that it needs as long as it lives: of its overlays, and
        its CDs.
        """
        over = [disk for disk in self.disks if disk.is_overlay]
        below = ((disk.pool, disk.image) for disk in over if disk.image)
        return (*below, *((cd.pool, cd.image) for cd in self.cds))

    @property
    def sriov_nics(self) -> tuple[SriovNic, ...]:
        """What it asks of the VFs that are NICs of it, in their order."""
        return tuple(nic.sriov for nic in self.nics if nic.sriov is not None)

    @property
    def own_filters(self) -> tuple[str, ...]:
        """The network filters that its rules on ports are."""
        names = dict.fromkeys(each.tuning.filter for each in self.nics)
        return tuple(name for name in names if PortFilter.named(name) is not None)

    def is_laid_over(self, volumes: Collection[tuple[str, str]]) -> bool:
        """Is a disk of it laid over one of these volumes?"""
        return any(disk.is_overlay and (disk.pool, disk.image) in volumes for disk in self.disks)

    def restored_as(self, made: VmSpec) -> VmSpec:
        """This spec with what ``made`` says of a backup that it was restored from, where the two
        ask for the same: no file says that.
        """
        if all(each.restored is None for each in made.disks):
            return self
        disks = tuple(
            replace(own, restored=old.restored)
            if old.restored is not None and _same_disk(own, old)
            else own
            for own, old in zip(self.disks, made.disks, strict=False)
        )
        seed, old_seed = self.cloud_init, made.cloud_init
        if seed is not None and old_seed is not None and old_seed.instance_id:
            seed = replace(seed, instance_id=old_seed.instance_id)
        nics = tuple(
            old if replace(own, mac=old.mac) == old and not own.mac else own
            for own, old in zip(self.nics, made.nics, strict=False)
        )
        return replace(
            self,
            disks=(*disks, *self.disks[len(disks) :]),
            nics=(*nics, *self.nics[len(nics) :]),
            uuid=self.uuid or made.uuid,
            cloud_init=seed,
        )


def _same_disk(own: DiskSpec, old: DiskSpec) -> bool:
    """But for what changes in place: its size and its tuning."""
    return replace(own, size_bytes=old.size_bytes, tuning=old.tuning, restored=old.restored) == old


def change_reach(field_name: str) -> ChangeReach:
    """How far a change of that field of :class:`VmSpec` reaches."""
    return _REACHES[field_name]


_REACHES: Mapping[str, ChangeReach] = {
    each.name: each.metadata.get("reach", ChangeReach.NEW_VM) for each in fields(VmSpec)
}
SWITCHES = tuple(each.name for each in fields(VmSpec) if each.type == "bool")
"""The fields of VmSpec that are true or false: a file's key has the same name."""


class VmState(StrEnum):
    """A VM in the ledger. One that is shelved is off and holds no GPU part, CPU or memory: its
    definition and its disks are kept on its host until it is started again.
    """

    RESERVED = "reserved"
    ACTIVE = "active"
    MIGRATING = "migrating"
    SHELVED = "shelved"
    DELETING = "deleting"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPlace:
    """A place on a host: memory bound to ``numa_node``, ``cpus`` the host CPUs pinned there.
    ``spec``, ``volumes`` and ``snapshots`` are the VM's once it is there, None where they are what
    they were. ``parts_stay``: it keeps the GPU parts that it holds. ``nic_functions``
    as in :class:`VmRecord`.
    """

    host: str
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()
    spec: VmSpec | None = None
    volumes: tuple[tuple[str, str], ...] | None = None
    parts_stay: bool = False
    snapshots: SnapshotTree | None = None
    nic_functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRecord:
    """A VM in the ledger. ``running`` is what the user last asked for.

    ``volumes`` are the (pool, name) pairs made for this VM, ``cpus`` the host CPUs pinned to it.
    ``snapshots`` have volumes of their own, below those.
    ``moving_to`` is set while a migration takes it there: until that ends it holds both places.
    ``definition`` is the domain XML that an adopted VM came with, less our mark: it is what the VM
    is defined from. Empty for a VM that we made, whose definition follows from its spec.
    ``guest`` is what is known of its guest, None where that was never looked at; only
    ``Ledger.note_guests`` writes it. ``nic_functions`` are the VFs of its host's NICs that it has,
    one for each of its NICs with SR-IOV, in their order; none while it is shelved.
    """

    id: str
    spec: VmSpec
    host: str
    state: VmState
    running: bool
    generation: int
    numa_node: int | None = None
    cpus: tuple[int, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()
    created_at: float = 0.0
    moving_to: VmPlace | None = None
    definition: str = ""
    snapshots: SnapshotTree = NO_SNAPSHOTS
    guest: GuestRecord | None = None
    nic_functions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The user's name for it, which is also the domain's name."""
        return self.spec.name

    @property
    def domain_uuid(self) -> str:
        """libvirt's id of its domain, unless it was adopted; also the machine UUID in the guest."""
        return self.spec.uuid or self.id

    @property
    def every_volume(self) -> tuple[tuple[str, str], ...]:
        """Its volumes and those of its snapshots, what is laid over another one first."""
        return (*self.volumes, *self.snapshots.volumes)

    @property
    def unsteady_volumes(self) -> frozenset[tuple[str, str]]:
        """The volumes that it writes to or that are about to go: nothing is laid over one."""
        to = self.moving_to
        kept = self.snapshots if to is None or to.snapshots is None else to.snapshots
        leaves = self.state is VmState.DELETING or (to is not None and to.host != self.host)
        steady = () if leaves else kept.volumes
        return frozenset(self.every_volume) - frozenset(steady)


def clones_of(vm: VmRecord, vms: Iterable[VmRecord]) -> tuple[str, ...]:
    """The names of those of ``vms`` whose disks are laid over a snapshot of it."""
    return tuple(each.name for each in vms if each.spec.is_laid_over(vm.snapshots.volumes))
