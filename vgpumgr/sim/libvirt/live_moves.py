"""The daemons' part in a live move (libvirt's v3, five phases), and what refuses to move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpumgr.model.codec import from_plain
from vgpumgr.model.domain import LiveMove, MoveProgress
from vgpumgr.model.errors import HostRefused, VgpumgrError
from vgpumgr.model.formats import ranges
from vgpumgr.sim.drivers.mdev_parents import Sample
from vgpumgr.sim.libvirt import domain_needs
from vgpumgr.sim.libvirt.domain_needs import Needs, read_needs
from vgpumgr.sim.libvirt.known_domains import PIECES, Domain, Job
from vgpumgr.sim.libvirt.sim_domains import SimDomains
from vgpumgr.sim.libvirt.volume_files import Content, VolumeFiles
from vgpumgr.sim.machine.kernel import Kernel

# Versions and kinds: gpu-facts §10 (as nova requires them); the samples: Linux samples/vfio-mdev.
# The words are libvirt's and QEMU's.


_LIBVIRT, _QEMU, _KERNEL = (8, 6), (8, 1), (5, 18)
_MTTY_KERNEL = (6, 8)
_MDEV_TO_VF = (11, 0)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What a receiver compares with its own before it takes a device's state."""

    kind: str
    board: str = ""
    driver: str = ""
    ecc: bool = False


def refused_at_source(kernel: Kernel, needs: Needs) -> str:
    """Why libvirt does not even begin; empty where it does."""
    if needs.kinds and _older(kernel.host.versions.libvirt, _LIBVIRT):
        return f"cannot migrate a domain with <hostdev mode='subsystem' type='{needs.kinds[0]}'>"
    for device in needs.facts.devices:
        if why := _blocker(kernel, device):
            return f"Requested operation is not valid: cannot migrate domain: {device}: {why}"
    return ""


def refused_at_target(kernel: Kernel, needs: Needs) -> str:
    """Why the receiving QEMU does not start; empty where it does."""
    for device in needs.facts.devices:
        why = _blocker(kernel, device)
        if _older(kernel.host.versions.libvirt, _LIBVIRT):
            why = "this libvirt moves no VFIO device"
        if why:
            return f"internal error: qemu: vfio {device}: {why}"
        if any(each is kernel.mdevs.devices.get(device) for each in kernel.spoiled):
            return (
                f"internal error: qemu: vfio {device}: error while loading state: "
                "failed to set device state RESUMING: Bad file descriptor"
            )
    return ""


def other_guest(here: Needs, there: Needs, libvirt: str) -> str:
    """Where the target's XML is another guest (libvirt's ABI check); empty where it is not."""
    pairs = [
        ("domain uuid", here.facts.uuid, there.facts.uuid),
        ("domain name", here.facts.name, there.facts.name),
        ("domain vCPU max", here.facts.vcpus, there.facts.vcpus),
        ("domain max memory", here.facts.memory_mib, there.facts.memory_mib),
        ("NUMA cells", _cells(here), _cells(there)),
        ("domain hostdev device count", len(here.kinds), len(there.kinds)),
        ("domain disk count", len(here.disks), len(there.disks)),
    ]
    if _older(libvirt, _MDEV_TO_VF):
        kinds = zip(here.kinds, there.kinds, strict=False)
        pairs += [("host device subsystem", *each) for each in kinds]
    for what, ours, theirs in pairs:
        if ours != theirs:
            return f"unsupported configuration: Target {what} {theirs} does not match source {ours}"
    return ""


def _cells(needs: Needs) -> str:
    """The guest's cells as the check compares them: which node is behind one is the host's."""
    cells = [each for each in needs.memory if each.vcpus]
    return "; ".join(f"{ranges(each.vcpus)}: {each.mib} MiB" for each in cells) or "none"


def refused_disks(needs: Needs, move: LiveMove) -> str:
    """Why its disks keep it; hosts here share no storage."""
    targets = {disk.target for disk in needs.disks}
    if unknown := [each for each in move.copied if each not in targets]:
        return f"invalid argument: disk {unknown[0]} not found"
    if any(disk.exclusive and disk.target not in move.copied for disk in needs.disks):
        return "Unsafe migration: Migration without shared storage is unsafe"
    return ""


def not_taken(theirs: DeviceState, mine: DeviceState) -> str:
    """What the source hears of a receiver that gave up."""
    return (
        "operation failed: job 'migration out' unexpectedly failed: error while loading state for "
        "instance 0x0 of device 'vfio': load of migration failed: Input/output error "
        f"({theirs} was sent to {mine})"
    )


def states(kernel: Kernel, devices: Sequence[str]) -> tuple[DeviceState, ...]:
    """The devices in the guest's order."""
    return tuple(_state(kernel, device) for device in devices)


def _state(kernel: Kernel, device: str) -> DeviceState:
    gpu = kernel.gpu_of(device)
    if gpu is None:
        return DeviceState(kernel.mdevs.devices[device].type.id)
    vgpu = gpu.vgpu(device)
    assert vgpu is not None, "a domain runs with it"
    driver = kernel.host.versions.driver
    return DeviceState(vgpu.type.profile, gpu.model.key, driver, gpu.ecc.enabled)


def spoil(kernel: Kernel, devices: Sequence[str]) -> None:
    """The samples stay as a receiver is after a move that failed, until they are recreated."""
    found = (kernel.mdevs.devices.get(device) for device in devices)
    kernel.spoiled += [each for each in found if each and isinstance(each.parent, Sample)]


def _blocker(kernel: Kernel, device: str) -> str:
    """QEMU's reason (VFIO migration v2); empty for a device that can be moved."""
    versions = kernel.host.versions
    if _older(versions.qemu, _QEMU) or _older(versions.kernel, _KERNEL):
        return "VFIO migration is not supported in kernel"
    gpu = kernel.gpu_of(device)
    if gpu is not None and gpu.address in kernel.nvidia:
        return ""
    mdev = kernel.mdevs.devices.get(device)
    if (
        mdev is not None
        and mdev.parent.name == "mtty"
        and not _older(versions.kernel, _MTTY_KERNEL)
    ):
        return ""
    return "VFIO migration is not supported in kernel"


def _older(version: str, than: tuple[int, int]) -> bool:
    """``6.1.0-37-amd64``; what is no version is old."""
    parts = version.partition("-")[0].split(".")[:2]
    if len(parts) < 2 or not all(part.isdigit() for part in parts):
        return True
    return (int(parts[0]), int(parts[1])) < than


# The client drives them (``transport/move_client.py``); a client that goes away leaves what
# ``gone`` says, which is what libvirt leaves (``virt/live_migration.py``).


_NO_TLS = (
    "internal error: unable to execute QEMU command 'object-add': Unable to access credentials "
    "/etc/pki/qemu/ca-cert.pem: No such file or directory"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What goes from QEMU to QEMU in one piece; ``disks`` by their target in the guest."""

    name: str
    address: str
    cpu_model: str
    devices: tuple[DeviceState, ...]
    disks: Mapping[str, Content]
    left: int


class SimMoves:
    """The moves of one host's domains, from here and to here. ``client`` is who drives one."""

    def __init__(self, kernel: Kernel, domains: SimDomains, storage: VolumeFiles) -> None:
        self._kernel = kernel
        self._domains = domains
        self._storage = storage

    def begin(self, client: str, move: dict[str, Any]) -> None:
        """On the source: check, and lock the domain."""
        wanted = from_plain(LiveMove, move)
        domain = self._domains.unlocked(wanted.name, "move")
        refused = _refusing(wanted.name)
        if domain.running is None or domain.paused:
            raise refused("Requested operation is not valid: domain is not running")
        there = _parsed(wanted.live_xml, refused)
        libvirt = self._kernel.host.versions.libvirt
        why = (
            refused_at_source(self._kernel, domain.running)
            or other_guest(domain.running, there, libvirt)
            or refused_disks(domain.running, wanted)
        )
        if why:
            raise refused(why)
        domain.job = Job(client=client, move=wanted, incoming=False)

    def prepare(self, client: str, move: dict[str, Any]) -> None:
        """On the target: a QEMU that waits, with its memory and devices."""
        wanted = from_plain(LiveMove, move)
        refused = _refusing(wanted.name)
        if wanted.to.tls and not self._kernel.host.tls:
            raise refused(_NO_TLS)
        needs = _parsed(wanted.live_xml, refused)
        domain = self._domains.receive(wanted.live_xml)
        if why := refused_at_target(self._kernel, needs):
            self._domains.destroy(wanted.name)
            raise refused(why)
        domain.job = Job(client=client, move=wanted, incoming=True)

    def perform(self, client: str, name: str) -> Piece:
        """On the source: the next piece; after the last one the guest is paused."""
        domain, job = self._driven(client, name)
        if job.move.to.tls and not self._kernel.host.tls:
            raise _refusing(name)(_NO_TLS)
        if job.cancelled:
            raise _refusing(name)("operation aborted: migration out: canceled by client")
        assert domain.running is not None
        copied = [disk for disk in domain.running.disks if disk.target in job.move.copied]
        return Piece(
            name=name,
            address=job.move.to.address,
            cpu_model=self._kernel.host.cpu_model,
            devices=states(self._kernel, domain.running.facts.devices),
            disks={disk.target: self._storage.content(disk.path) for disk in copied},
            left=job.left - 1,
        )

    def take(self, piece: Piece) -> None:
        """On the target: what the source's QEMU sends; it fails there when it fails here."""
        domain = next((each for each in self._domains.all() if _waits_for(each, piece.name)), None)
        refused = _refusing(piece.name)
        if domain is None or domain.job is None or domain.running is None:
            raise refused(f"unable to connect to server at '{piece.address}:49152': refused")
        domain.job.loaded = True
        if domain_needs.guest_notices(domain.running, self._kernel.host, piece.cpu_model):
            raise refused("operation failed: guest CPU doesn't match specification")
        ours = states(self._kernel, domain.running.facts.devices)
        for theirs, mine in zip(piece.devices, ours, strict=True):
            if theirs != mine:
                raise refused(not_taken(theirs, mine))
        for disk in domain.running.disks:
            if disk.target in piece.disks:
                self._storage.mirror(disk.path, piece.disks[disk.target])
        domain.job.left = piece.left

    def sent(self, client: str, name: str) -> bool:
        """On the source: the piece has gone over; was it the last?"""
        domain, job = self._driven(client, name)
        job.left -= 1
        domain.paused = job.left == 0
        return domain.paused

    def finish(self, client: str, name: str, cancelled: bool) -> None:
        """On the target: define it and let it run; or drop what waits."""
        domain, job = self._driven(client, name)
        if cancelled:
            self._drop(domain)
            return
        if job.left:
            raise _refusing(name)("operation failed: migration was not finished")
        try:
            self._domains.define(job.move.persistent_xml)
        except VgpumgrError:
            self._drop(domain)
            raise
        domain.paused, domain.job = False, None

    def confirm(self, client: str, name: str, cancelled: bool) -> None:
        """On the source: power it off, or let it go on."""
        domain, _ = self._driven(client, name)
        domain.job = None
        if cancelled:
            domain.paused = False
        else:
            self._domains.destroy(name)

    def progress(self, name: str) -> MoveProgress | None:
        """How far it is; a receiver cannot tell."""
        domain = self._domains.find(name)
        if domain is None or domain.job is None:
            return None
        if domain.job.incoming:
            return MoveProgress(total_bytes=0, left_bytes=0)
        total = domain.needs.facts.memory_mib << 20
        return MoveProgress(total_bytes=total, left_bytes=total * domain.job.left // PIECES)

    def cancel(self, name: str) -> None:
        """The next piece does not go over any more."""
        domain = self._domains.find(name)
        if domain is not None and domain.job is not None and not domain.job.incoming:
            domain.job.cancelled = True

    def gone(self, client: str) -> None:
        """The client's connection has closed: receivers are killed, senders' locks dropped."""
        for domain in self._domains.all():
            if domain.job is None or domain.job.client != client:
                continue
            if domain.job.incoming:
                self._drop(domain)
            else:
                domain.job = None

    def _drop(self, domain: Domain) -> None:
        assert domain.running is not None
        assert domain.job is not None
        if domain.job.loaded:
            spoil(self._kernel, domain.running.facts.devices)
        self._domains.destroy(domain.needs.facts.name)

    def _driven(self, client: str, name: str) -> tuple[Domain, Job]:
        domain = self._domains.find(name)
        if domain is None or domain.job is None or domain.job.client != client:
            raise _refusing(name)("Requested operation is not valid: domain is not running")
        return domain, domain.job


def _waits_for(domain: Domain, name: str) -> bool:
    return domain.needs.facts.name == name and domain.job is not None and domain.job.incoming


def _parsed(xml: str, refused: Callable[[str], HostRefused]) -> Needs:
    try:
        return read_needs(xml)
    except ValueError as error:
        raise refused(f"XML error: {error}") from error


def _refusing(name: str) -> Callable[[str], HostRefused]:
    return lambda why: HostRefused(f"cannot move domain {name}", why=why)
