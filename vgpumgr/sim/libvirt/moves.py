"""Both daemons' parts in a live move: begin, prepare, perform, finish, confirm (libvirt's v3).

The client drives them (``transport/moving.py``); a client that goes away leaves what ``gone`` says,
which is what libvirt leaves (``virt/migration.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vgpumgr.model.codec import from_plain
from vgpumgr.model.errors import HostRefused, VgpumgrError
from vgpumgr.model.migration import LiveMove, MoveProgress
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.libvirt import cpu, movable
from vgpumgr.sim.libvirt.domain import PIECES, Domain, Job
from vgpumgr.sim.libvirt.domains import SimDomains
from vgpumgr.sim.libvirt.files import Content, VolumeFiles
from vgpumgr.sim.libvirt.movable import DeviceState
from vgpumgr.sim.libvirt.needs import Needs, read_needs

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
            movable.refused_at_source(self._kernel, domain.running)
            or movable.other_guest(domain.running, there, libvirt)
            or movable.refused_disks(domain.running, wanted)
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
        if why := movable.refused_at_target(self._kernel, needs):
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
            devices=movable.states(self._kernel, domain.running.facts.devices),
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
        if cpu.guest_notices(domain.running, self._kernel.host, piece.cpu_model):
            raise refused("operation failed: guest CPU doesn't match specification")
        ours = movable.states(self._kernel, domain.running.facts.devices)
        for theirs, mine in zip(piece.devices, ours, strict=True):
            if theirs != mine:
                raise refused(movable.not_taken(theirs, mine))
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
            movable.spoil(self._kernel, domain.running.facts.devices)
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
