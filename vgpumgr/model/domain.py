"""libvirt domains: their plans and facts, volumes, and migrations between hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.guest_system import GuestSystem


class DomainState(StrEnum):
    """libvirt's domain states that matter to us."""

    RUNNING = "running"
    PAUSED = "paused"
    SHUTOFF = "shutoff"
    CRASHED = "crashed"
    OTHER = "other"


# The states of a domain that runs no guest.
OFF = frozenset({DomainState.SHUTOFF, DomainState.CRASHED})

PASSED_CPU, LIKE_HOST = "host-passthrough", "host-model"
"""The host's own CPU, or one that libvirt makes as much like it as others can have, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What a domain's ``<metadata>`` says of us, in the namespace ``https://vgpumgr.dev/v1``.

    ``uuid`` is the domain's own where its VM came with one: other than ``vm_id``, and no sign of a
    domain that was adopted.
    """

    fleet: str
    vm: str
    vm_id: str
    generation: int
    allocations: tuple[str, ...] = ()
    uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFacts:
    """A domain as found on a host. ``ownership`` is None for a foreign one.

    ``devices`` are the host devices it names: mdev UUIDs and PCI addresses as text.
    """

    name: str
    uuid: str
    state: DomainState
    persistent: bool = True
    autostart: bool = False
    vcpus: int = 0
    memory_mib: int = 0
    devices: tuple[str, ...] = ()
    ownership: Ownership | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBeside:
    """What libvirt keeps of a domain beside its definition, on that host alone."""

    snapshots: int = 0
    saved_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestFacts:
    """What a guest's agent tells: how many users are logged in (None: it does not say), and the
    addresses that others may reach it at. It is the guest's word.
    """

    users: int | None = None
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MdevHostdev:
    """An mdev in a domain. ``display`` turns on display and ramfb: on one vGPU of a VM only."""

    uuid: str
    display: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PciHostdev:
    """A PCI function in a domain, ``managed='no'``: the helper has bound it.

    ``display`` turns on display and ramfb where the host's libvirt knows them for PCI devices.
    ``follows`` is the address of the function whose slot in the guest it shares (multifunction).
    """

    address: str
    display: bool = False
    follows: str = ""


Hostdev = MdevHostdev | PciHostdev


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskTuning:
    """How a guest uses a disk: QEMU's ``cache`` mode (empty: its own choice), the ``serial`` that
    the guest sees, and limits on requests and bytes a second, both directions together.
    """

    cache: str = ""
    serial: str = ""
    iops: int | None = None
    bytes_s: int | None = None


UNTUNED_DISK = DiskTuning()


class DiskType(StrEnum):
    """How QEMU opens a disk, in libvirt's words: a file, a block device, or over the network."""

    FILE = "file"
    BLOCK = "block"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSource:
    """Where the volumes of a pool lie behind libvirt: its servers or monitors, each ``NAME`` or
    ``NAME:PORT``, and what it is called there (an export's path, a volume group, a pool of Ceph's).
    ``user`` logs in with the value of libvirt's secret of that UUID; empty for none.
    """

    hosts: tuple[str, ...] = ()
    name: str = ""
    user: str = ""
    secret: str = ""


NO_SOURCE = PoolSource()


@dataclass(frozen=True, slots=True, kw_only=True)
class NicTuning:
    """How a NIC is joined to its network: the ``model`` that the guest sees, a ``vlan`` tag, one of
    libvirt's network filters, and limits in KiB a second towards the guest (in) and from it (out).
    """

    model: str = "virtio"
    vlan: int | None = None
    filter: str = ""
    inbound_kib_s: int | None = None
    outbound_kib_s: int | None = None


PLAIN_NIC = NicTuning()


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What a VM shows: its heads, and the pixels of each at its start; 0: not said."""

    heads: int = 1
    width: int = 0
    height: int = 0

    @property
    def resolution(self) -> str:
        """``1920x1080``; empty where it is not said."""
        return f"{self.width}x{self.height}" if self.width else ""

    def __str__(self) -> str:
        """``2 heads, 1920x1080``."""
        heads = "1 head" if self.heads == 1 else f"{self.heads} heads"
        return f"{heads}, {self.resolution}" if self.width else heads


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainDisk:
    """One disk: a volume's path and its *declared* format; never probed. ``tuning`` does
    not change its volume. ``server`` is where one of the network's is; its path is POOL/NAME there.
    ``boot_order``: the guest boots from the disk with the lowest; 0: its kind says so.
    ``scsi``: a CD-ROM on virtio-scsi, which kernels made for clouds have where they have no SATA.
    """

    path: str
    format: str
    target: str
    cdrom: bool = False
    scsi: bool = False
    tuning: DiskTuning = UNTUNED_DISK
    type: DiskType = DiskType.FILE
    server: PoolSource = NO_SOURCE
    boot_order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainNic:
    """One NIC on a libvirt network or a host bridge, or the PCI ``function`` (a VF) that it is:
    exactly one of the three.
    """

    mac: str
    network: str | None = None
    bridge: str | None = None
    function: str = ""
    tuning: NicTuning = PLAIN_NIC


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaShare:
    """What of a domain lies on one NUMA node of its host: vCPUs by number, memory in MiB.

    ``cpus`` are the node's own CPUs; empty: not known, and vCPUs may run anywhere.
    """

    node: int
    cpus: tuple[int, ...] = ()
    vcpus: tuple[int, ...] = ()
    memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaSeat:
    """Where a domain lies on its host: one share, or several, each a NUMA cell of the guest.

    ``strict``: its memory comes from there and from nowhere else; otherwise from there first.
    """

    shares: tuple[NumaShare, ...]
    strict: bool = False

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs of all its nodes."""
        return tuple(sorted({cpu for share in self.shares for cpu in share.cpus}))


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainPlan:
    """All that a domain's XML is made from. Memory in MiB.

    ``accelerator`` is ``kvm`` or ``tcg``. ``optional_devices`` are the spec's switches that are on
    and are a device each (``agent``). ``cpus`` are the host CPUs to pin to, one per vCPU, or
    empty; ``seat`` is where it lies on the host's NUMA nodes, None: anywhere. ``mmio64_mib`` > 0
    asks for a PCI window large enough for the GPU's BARs (NVIDIA AI Enterprise 6.x, MMIO table).
    ``system`` is what its guest is, None: not said.
    """

    name: str
    uuid: str
    vcpus: int
    memory_mib: int
    accelerator: str
    firmware: str = "uefi"
    disks: tuple[DomainDisk, ...] = ()
    nics: tuple[DomainNic, ...] = ()
    hostdevs: tuple[Hostdev, ...] = ()
    graphics: bool = False
    screen: Screen | None = None
    optional_devices: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()
    seat: NumaSeat | None = None
    hugepage_kib: int | None = None
    secure_boot: bool = False
    cpu_model: str = PASSED_CPU
    cpu_shares: int | None = None
    mmio64_mib: int = 0
    system: GuestSystem | None = None
    ownership: Ownership
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlan:
    """A volume to make: ``fresh``, ``copy`` or ``overlay`` of ``source``, a volume of the pool. A
    copy's may be in another pool, ``source_pool``.
    """

    pool: str
    name: str
    capacity_bytes: int
    format: str
    mode: str = "fresh"
    source: str | None = None
    source_path: str | None = None
    source_format: str | None = None
    source_pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFacts:
    """A volume as found."""

    pool: str
    name: str
    path: str
    capacity_bytes: int
    format: str
    backing_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationAddress:
    """A host's ``migration:`` block: where other hosts send a running VM.

    ``tls_name`` is the name in its certificate; empty means ``address``. ``bandwidth_mib_s`` None
    leaves QEMU's own limit.
    """

    address: str
    tls: bool = True
    tls_name: str = ""
    bandwidth_mib_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMove:
    """One running domain to another host.

    ``live_xml`` is the running domain as the target is to have it (its devices, its pinning),
    ``persistent_xml`` the definition that stays there. ``copied`` are the targets (``vda``) of the
    disks whose data goes along; volumes for them exist on the target.
    """

    name: str
    live_xml: str
    persistent_xml: str
    to: MigrationAddress
    copied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """How far a live move is: bytes of memory and copied disks."""

    total_bytes: int
    left_bytes: int
