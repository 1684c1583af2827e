"""The domains that the libvirt of one simulated host knows, and what each holds while it runs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import count

from vgpumgr import virt
from vgpumgr.domainxml.libvirt_acceptance import without_newer
from vgpumgr.model.domain import DomainFacts, DomainState, GuestFacts, LiveMove
from vgpumgr.model.errors import Conflict, HostRefused, NotFound, VgpumgrError
from vgpumgr.model.host import MachineFeature
from vgpumgr.sim.libvirt import tpm_files
from vgpumgr.sim.libvirt.admission import admit, release
from vgpumgr.sim.libvirt.domain_needs import Needs, read_needs, validated
from vgpumgr.sim.libvirt.guest_script import PLAIN_GUEST, GuestScript
from vgpumgr.sim.libvirt.sim_storage import SimStorage
from vgpumgr.sim.machine.durable_texts import Durable
from vgpumgr.sim.machine.kernel import Kernel

PIECES = 4
"""A domain moves in so many pieces: between them one can look, cancel, or pull a plug."""


NOBODY = GuestFacts(users=0)
"""A guest that has just booted: nobody is logged in."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A domain's part in a move, for as long as ``client`` drives it.

    ``left`` are the pieces that have not gone over; ``loaded``: the receiver has begun to take the
    devices' state.
    """

    client: str
    move: LiveMove
    incoming: bool
    left: int = PIECES
    loaded: bool = False
    cancelled: bool = False


class WrittenFile(Enum):
    """What libvirt writes of a domain."""

    DEFINITION = auto()
    AUTOSTART = auto()
    STATUS = auto()


WRITES = count(time.time_ns())
"""Each file that is written gets the next number, in the place of a time."""

# The file that is written when a field is set.
_FILES = {
    "xml": WrittenFile.DEFINITION,
    "autostart": WrittenFile.AUTOSTART,
    **dict.fromkeys(("running", "live", "paused", "job"), WrittenFile.STATUS),
}


@dataclass(slots=True)
class Domain:
    """``running`` is what it was started with, ``live`` as XML; None and empty while it is off.

    ``viewers`` are QEMU's ends of connections to its VNC server. ``guest`` is what its guest would
    tell, None where its agent is silent: every simulated guest has one, which is heard where the
    domain has a channel for it. ``script`` is how its programs end, ``on_since`` its start.
    ``backed_up``: its disks were copied since it was started; ``checkpoints`` are the files that it
    had at the moments since which it remembers what is written. ``written`` says when each file of
    it was written last.
    """

    xml: str
    needs: Needs
    autostart: bool = False
    persistent: bool = True
    running: Needs | None = None
    live: str = ""
    paused: bool = False
    job: Job | None = None
    viewers: list[socket.socket] = field(default_factory=list)
    guest: GuestFacts | None = NOBODY
    script: GuestScript = PLAIN_GUEST
    on_since: float = 0.0
    backed_up: bool = False
    checkpoints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    written: dict[WrittenFile, int] = field(
        default_factory=lambda: dict.fromkeys(WrittenFile, next(WRITES))
    )

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in _FILES and hasattr(self, "written"):  # it is the last field to be made
            self.written[_FILES[name]] = next(WRITES)

    def hang_up(self) -> None:
        """QEMU is gone: whoever looks on sees the end."""
        while self.viewers:
            with suppress(OSError):
                self.viewers.pop().shutdown(socket.SHUT_RDWR)

    @property
    def agent_hears(self) -> bool:
        """Does the agent in its guest answer?"""
        return self.running is not None and self.running.agent and not self.paused

    @property
    def facts(self) -> DomainFacts:
        """What libvirt shows of it: while it runs, what it runs with."""
        return replace(
            (self.running or self.needs).facts,
            state=self._state,
            autostart=self.autostart,
            persistent=self.persistent,
        )

    @property
    def _state(self) -> DomainState:
        if self.running is None:
            return DomainState.SHUTOFF
        return DomainState.PAUSED if self.paused else DomainState.RUNNING


# The test driver forgets at its process's end and drops what it does not know: the defined XML is
# kept here, and read again at every start.


DOMAIN = "domain:"


class KnownDomains:
    """Definitions and autostart survive a power cut. ``new_guests`` is how the programs of guests
    end that are defined from now on.
    """

    def __init__(
        self,
        kernel: Kernel,
        durable: Durable,
        storage: SimStorage,
        libvirt: Callable[[], virt.Libvirt],
    ) -> None:
        self._kernel = kernel
        self._durable = durable
        self._storage = storage
        self._libvirt = libvirt
        self._domains: dict[str, Domain] = {}
        self.new_guests = PLAIN_GUEST
        for name, text in durable.under(DOMAIN).items():
            record = json.loads(text)
            needs = read_needs(record["xml"])
            self._domains[name] = Domain(record["xml"], needs, record["autostart"])

    def replay(self, libvirt: virt.Libvirt) -> None:
        """Define all domains in a fresh connection."""
        for domain in self._domains.values():
            libvirt.domains.define(self.told(domain.xml), validate=False)

    def told(self, xml: str) -> str:
        """What the test driver, which may be an older libvirt than the host's, is told of it."""
        return without_newer(xml, self._kernel.host.versions.libvirt)

    def named(self, key: str) -> str:
        """The name of the domain of that UUID; ``key`` itself where none has it."""
        found = (name for name, each in self._domains.items() if each.needs.facts.uuid == key)
        return next(found, key)

    def find(self, name: str) -> Domain | None:
        """One domain, or None."""
        return self._domains.get(name)

    def require(self, name: str) -> Domain:
        """One domain; NotFound when there is none."""
        domain = self._domains.get(name)
        if domain is None:
            raise NotFound(f"there is no domain {name}")
        return domain

    def all(self) -> tuple[Domain, ...]:
        """Every domain."""
        return tuple(self._domains.values())

    def receive(self, xml: str) -> Domain:
        """A domain that waits, paused, for another host's; one of that name may be defined."""
        needs = validated(self._kernel.host, xml)
        name = needs.facts.name
        domain = self._domains.get(name) or Domain(xml, needs, persistent=False)
        doing, known = f"cannot move domain {name}", domain.needs.facts.uuid
        if known != needs.facts.uuid:
            why = f"operation failed: domain '{name}' already exists with uuid {known}"
            raise Conflict(doing, why=why)
        if domain.running:
            why = f"operation failed: domain '{name}' is already active"
            raise HostRefused(doing, why=why)
        self._libvirt().domains.define(self.told(xml), validate=False)
        self._domains[name] = domain
        try:
            self.power_on(domain, xml, needs)
        except VgpumgrError:
            self._forget_unless_kept(domain)
            raise
        domain.paused = True
        return domain

    def unlocked(self, name: str, doing: str) -> Domain:
        """A domain that no move has locked."""
        domain = self.require(name)
        if domain.job is not None:
            raise HostRefused(
                f"cannot {doing} domain {name}",
                why="Timed out during operation: cannot acquire state change lock "
                "(held by monitor=remoteDispatchDomainMigratePerform3Params)",
            )
        return domain

    def power_on(self, domain: Domain, xml: str, needs: Needs) -> None:
        """Start what the XML asks for, or refuse as QEMU would."""
        name = needs.facts.name
        admit(self._kernel, needs, self.running(), self._storage.exists, self._storage.chain)
        if MachineFeature.TPM in needs.features:
            tpm_files.make(self._kernel, needs.facts.uuid)
        try:
            self._libvirt().domains.start(name)
        except VgpumgrError:
            release(self._kernel, name)
            raise
        domain.running, domain.live = needs, xml
        domain.on_since = self._kernel.clock.now()

    def running(self, but: str = "") -> list[Needs]:
        """What runs, but for one domain."""
        others = (each for name, each in self._domains.items() if name != but)
        return [each.running for each in others if each.running]

    def is_off(self, name: str) -> None:
        """The domain went off: its devices, disks and memory are free."""
        domain = self._domains[name]
        release(self._kernel, name)
        domain.running, domain.live, domain.paused, domain.job = None, "", False, None
        domain.guest, domain.backed_up = NOBODY, False
        domain.hang_up()
        self._forget_unless_kept(domain)

    def _forget_unless_kept(self, domain: Domain) -> None:
        if not domain.persistent:
            name = domain.needs.facts.name
            self._libvirt().domains.undefine(name)
            tpm_files.forget(self._kernel, domain.needs.facts.uuid)
            self._domains.pop(name, None)

    def keep(self, domain: Domain) -> None:
        """Write its definition down."""
        record = json.dumps({"xml": domain.xml, "autostart": domain.autostart})
        self._durable[DOMAIN + domain.needs.facts.name] = record
