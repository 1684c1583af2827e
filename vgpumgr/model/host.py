"""Hosts: the ledger's record with its fence, and the facts of a probe."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.domain import NO_SOURCE, DiskType, DomainFacts, MigrationAddress, PoolSource
from vgpumgr.model.gpu import GpuFacts, Mdev
from vgpumgr.model.health import XidLine
from vgpumgr.model.nic import NicFacts

# Who partitions a host's GPUs: Layouts alone, or where there is none the fleet, as VMs need them.
DECLARED, AUTO = "declared", "auto"

# A fence agent says by its exit code that a host is off: 0 is on, 2 is off (FenceAgentAPI).
SAID_OFF = frozenset({0, 2})

SECRET_PATH = "{secret}"  # noqa: S105
"""What stands in a fence's arguments for the path of its secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A host's ``fence:`` block: two programs that run on the controller, as argument lists.

    ``off`` switches the host off, ``status`` says whether it is: see :func:`says_off`.
    ``secret`` names a secret of the fleet, whose file's path they get for ``{secret}``.
    """

    off: tuple[str, ...]
    status: tuple[str, ...]
    secret: str = ""

    def needing(self, argv: Sequence[str], path: str) -> tuple[str, ...]:
        """The arguments with the path of the secret's file where they ask for it."""
        return tuple(each.replace(SECRET_PATH, path) for each in argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Why a host is surely off: what ``status`` said, or who gave their word for it."""

    host: str
    how: str


def says_off(code: int | None, answer: str) -> bool:
    """Exit code 0 or 2, and one line with one word on the state: ``off``, in any case, at its end.

    ``Chassis Power is off`` (ipmitool), ``Status: OFF`` (fence agents). Everything else is unknown,
    and so no proof: two lines (a server with two feeds, of which one is on), a line that speaks of
    more than one thing, or that says ``not off``.
    """
    lines = answer.strip().splitlines()
    if code not in SAID_OFF or len(lines) != 1:
        return False
    line = lines[0].lower()
    return _TELLING.findall(line) == ["off"] and line.split()[-1] == "off"


# Words on a state, or on whether it is known. A line with any of them beside ``off`` is no proof.
_TELLING = re.compile(
    r"\b(off|on|up|down|active|alive|standby|sleeping|suspended|half|partly|partially|mixed|some|was"
    r"|before|last|pending|soon|not|no|never|isn.t|cannot|can.t|unknown|error|failed|failure|timeout"
    r"|or|and|but)\b"
)
_SECRET = re.compile(r"(pass(word|wd|phrase)?|passw|secret|token)=.+|--?(pass(word|wd)?)$", re.I)
_CREDENTIALS = re.compile(r"://[^/@\s]*:[^/@\s]+@")


def inline_secret(argv: Sequence[str]) -> str:
    """The argument that holds a password, as far as one can tell; empty where none does.

    Anybody on this machine sees the arguments of a program, and everybody the ledger's.
    """
    return next(iter(_secrets(argv)), "")


def _secrets(argv: Sequence[str]) -> Iterator[str]:
    program = posixpath.basename(argv[0]) if argv else ""
    letter = "-P" if program.startswith("ipmi") else "-p" if program.startswith("fence_") else None
    for argument in argv[1:]:
        glued = letter is not None and argument.startswith(letter)
        if glued or _SECRET.search(argument) or _CREDENTIALS.search(argument):
            yield argument


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """One NUMA node: its CPUs, memory in MiB, and huge pages by page size in KiB.

    Pages set aside (``hugepages_total``) are part of ``memory_mib`` but no use to a VM that asks
    for ordinary memory.
    """

    id: int
    cpus: tuple[int, ...]
    memory_mib: int
    hugepages_free: Mapping[int, int] = field(default_factory=dict)
    hugepages_total: Mapping[int, int] = field(default_factory=dict)

    @property
    def set_aside_mib(self) -> int:
        """Memory that lies in huge pages."""
        return sum(size * count for size, count in self.hugepages_total.items()) // 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions as dotted text; an empty string is *unknown*."""

    kernel: str = ""
    libvirt: str = ""
    qemu: str = ""
    driver: str = ""
    helper: str = ""


_UNKNOWN_BYTES = 1 << 62
# By libvirt's kind of a pool, where it is no folder.
_DISK_TYPES = {
    "disk": DiskType.BLOCK,
    "iscsi": DiskType.BLOCK,
    "logical": DiskType.BLOCK,
    "mpath": DiskType.BLOCK,
    "rbd": DiskType.NETWORK,
    "scsi": DiskType.BLOCK,
    "zfs": DiskType.BLOCK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePool:
    """A libvirt storage pool; a volume of it is at ``path``/NAME. ``source`` is empty for a folder
    of the host's own.
    """

    name: str
    kind: str
    path: str
    capacity_bytes: int
    available_bytes: int
    active: bool = True
    source: PoolSource = NO_SOURCE

    @property
    def disk_type(self) -> DiskType:
        """How QEMU opens a volume of it."""
        return _DISK_TYPES.get(self.kind, DiskType.FILE)

    @property
    def room_bytes(self) -> int:
        """What new volumes may fill; a great number where that is not known. Thin volumes of LVM
        fill a pool within the volume group, and libvirt knows only what is free of the group. Of a
        cluster that has not counted yet libvirt says that it has nothing at all.
        """
        if not self.capacity_bytes:
            return _UNKNOWN_BYTES
        return self.capacity_bytes if self.kind == "logical" else self.available_bytes


class MachineFeature(StrEnum):
    """What a VM may ask of its machine, and not every host's libvirt can make."""

    TPM = "tpm"  # an emulated TPM 2.0: swtpm is installed there
    SECURE_BOOT = "secure-boot"  # a UEFI firmware that starts signed systems alone
    BRIDGE_VLAN = "bridge-vlan"  # a VLAN tag on a port of a plain Linux bridge (libvirt 11.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPart:
    """A part of a probe that could not be read, and why."""

    part: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFacts:
    """A claim file found on a host (``/var/lib/vgpumgr/claims/<unit>.json``)."""

    unit: str
    fleet: str
    epoch: int
    allocation: str
    generation: int
    vm: str
    wanted: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPartitionFacts:
    """A partition of Fabric Manager: ``gpus`` are physicalIds (module ids on H100 and later)."""

    id: int
    gpus: tuple[int, ...]
    active: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricFacts:
    """NVSwitch fabric partitions as ``fmpm -l`` lists them."""

    partitions: tuple[FabricPartitionFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Everything one probe read. Parts that could not be read are named in ``unknown``.

    ``stopping``: it is being shut down, and powers its guests off. ``fabric`` is None where no
    Fabric Manager answers in a mode that has partitions. ``hugepage_kib`` is the size of a huge
    page where none is named, None where the host does not tell. ``filters`` are libvirt's network
    filters. ``defined_pools`` are the names of its storage pools by libvirt's files, and
    ``stalled_pools`` those whose server does not answer, which are not active then. ``features``
    are those of :class:`MachineFeature` that a VM can have there. ``nics`` are
    those with SR-IOV, by name. ``xids`` are
    the newest of the kernel's log since the boot, in its order; none where it may not be read.
    ``epochs`` are
    the highest that the host has seen of each fleet's controllers, None where that was not read;
    ``epoch`` is what a helper said that kept one for all fleets. They are what the host remembers
    of us, not how it is, so two probes that differ in them alone are equal.
    """

    host: str
    boot_id: str
    hostname: str
    versions: Versions
    cpus: int
    memory_mib: int
    iommu: bool
    kvm: bool
    numa: tuple[NumaNode, ...] = ()
    gpus: tuple[GpuFacts, ...] = ()
    mdevs: tuple[Mdev, ...] = ()
    claims: tuple[ClaimFacts, ...] = ()
    domains: tuple[DomainFacts, ...] = ()
    pools: tuple[StoragePool, ...] = ()
    networks: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    defined_pools: tuple[str, ...] = ()
    stalled_pools: tuple[str, ...] = ()
    foreign_mdev_definitions: tuple[str, ...] = ()
    cpu_model: str = ""
    hugepage_kib: int | None = None
    fabric: FabricFacts | None = None
    epochs: Mapping[str, int] | None = field(default=None, compare=False)
    epoch: int | None = field(default=None, compare=False)
    stopping: bool = False
    xids: tuple[XidLine, ...] = ()
    nics: tuple[NicFacts, ...] = ()
    unknown: tuple[UnknownPart, ...] = ()

    def epoch_of(self, fleet: str) -> int | None:
        """The highest epoch that it has seen of a fleet, 0 for none; None: that was not read."""
        return self.epoch if self.epochs is None else self.epochs.get(fleet, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What of the helper lies on a host.

    ``current``: it is the one that this vgpumgr brings along. ``fleets`` are those that enrolled
    the host; ``state``: it keeps anything there at all (claims, the epoch, …).
    """

    helper: bool = False
    current: bool = False
    fleets: tuple[str, ...] = ()
    state: bool = False


class Membership(StrEnum):
    """A host on its way into the fleet or out of it takes no VM and is not looked at."""

    MEMBER = "member"
    JOINING = "joining"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """A host in the ledger.

    ``address`` is ``USER@HOST[:PORT]``, ``local`` or ``sim://NAME``; ``host_key`` the pinned
    ``SHA256:…`` fingerprint (empty where there is no SSH). ``observed_at`` is Unix time in
    seconds of the last complete probe. ``migration`` None: the host accepts no live migrations.

    ``layout`` is ``declared``, or ``auto``: empty GPUs without a Layout are partitioned for the VMs
    that are placed there.

    ``physical_networks`` are the interfaces of NICs with SR-IOV by the network that they are joined
    to, which VMs name instead of an interface.

    ``cordoned`` is what placement reads. ``draining``: its VMs are being moved away, to
    ``drain_to`` alone where that names hosts; with ``logoff_by`` (Unix time in seconds) floating
    desktops are not: their users may stay till then, and nobody's go at once.
    ``maintenance``: nothing runs there and nobody acts there; it may be off. ``evacuated``: it was
    fenced and its VMs were recreated elsewhere, and what they left there is still to be removed.
    ``settled_boot``: the boot id under which what is ours was last seen whole by `serve`; a later
    boot takes no new VMs until it is whole again. Empty: no controller looks after that.
    """

    name: str
    address: str
    host_key: str = ""
    cordoned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    physical_networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cpu_overcommit: float = 4.0
    reserved_memory_mib: int = 1024
    accelerator: str = "auto"
    layout: str = DECLARED
    probe_only: bool = False
    migration: MigrationAddress | None = None
    draining: bool = False
    drain_to: tuple[str, ...] = ()
    logoff_by: float | None = None
    maintenance: bool = False
    evacuated: bool = False
    fence: Fence | None = None
    settled_boot: str = ""
    membership: Membership = Membership.MEMBER
    generation: int = 0
    facts: HostFacts | None = None
    observed_at: float | None = None
    last_error: str = ""

    @property
    def at_rest(self) -> bool:
        """Does nobody act there but who ends what was begun?"""
        return self.maintenance or self.membership is not Membership.MEMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedLook:
    """A look at a host that showed what the look before showed; ``before`` and ``at`` are when
    they were (Unix seconds).
    """

    host: str
    before: float
    at: float
