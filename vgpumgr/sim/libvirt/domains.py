"""The domains of one simulated host: libvirt's test driver, refusing what QEMU and VFIO would.

The test driver forgets at its process's end and drops what it does not know: the defined XML is
kept here, and read again at every start.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

from vgpumgr import domainxml, virt
from vgpumgr.model.domain import DomainFacts, KeptBeside
from vgpumgr.model.errors import Conflict, HostRefused, NotFound, VgpumgrError
from vgpumgr.sim.durable import Durable
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.libvirt import cpu
from vgpumgr.sim.libvirt.admission import admit, release
from vgpumgr.sim.libvirt.domain import Domain
from vgpumgr.sim.libvirt.needs import Needs, read_needs
from vgpumgr.sim.libvirt.storage import SimStorage
from vgpumgr.sim.libvirt.validation import validated

_DOMAIN = "domain:"


class SimDomains:
    """Fulfils ``ports.Domains``. Definitions and autostart survive a power cut."""

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
        for name, text in durable.under(_DOMAIN).items():
            record = json.loads(text)
            needs = read_needs(record["xml"])
            self._domains[name] = Domain(record["xml"], needs, record["autostart"])

    def replay(self, libvirt: virt.Libvirt) -> None:
        """Define all domains in a fresh connection."""
        for domain in self._domains.values():
            libvirt.domains.define(domain.xml, validate=False)

    def boot(self) -> None:
        """What libvirtd does when the host comes up: start those marked so, as far as it goes."""
        for name, domain in list(self._domains.items()):
            if domain.autostart:
                with suppress(VgpumgrError):
                    self.start(name)

    def list(self) -> tuple[DomainFacts, ...]:
        """Every domain, by name."""
        return tuple(self._domains[name].facts for name in sorted(self._domains))

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None."""
        domain = self._domains.get(name)
        return domain.facts if domain else None

    def xml(self, name: str) -> str:
        """The XML as it was defined; NotFound when there is none."""
        return self.require(name).xml

    def define(self, xml: str) -> str:
        """Define, validated by libvirt's schema and parser, and return the XML as kept."""
        needs = validated(self._kernel.host, xml)
        read_back = self._libvirt().domains.define(xml, validate=False)
        if not needs.facts.uuid:
            xml, needs = read_back, read_needs(read_back)
        name = needs.facts.name
        domain = self._domains.setdefault(name, Domain(xml, needs))
        domain.xml, domain.needs, domain.persistent = xml, needs, True
        self._keep(domain)
        return xml

    def start(self, name: str) -> None:
        """Start with what its XML asks for, or refuse as QEMU would; running is no error."""
        domain = self.require(name)
        if not domain.running:
            self._power_on(domain, domain.xml, domain.needs)

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off: simulated guests do so at once."""
        self.unlocked(name, "shut down")
        self._libvirt().domains.shutdown(name)
        self._is_off(name)

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot; refused while it is off."""
        if not self.unlocked(name, "reboot").running:
            why = "Requested operation is not valid: domain is not running"
            raise HostRefused(f"cannot reboot domain {name}", why=why)

    def destroy(self, name: str) -> None:
        """Power off; a domain that is off is no error."""
        self.require(name)
        self._libvirt().domains.destroy(name)
        self._is_off(name)

    def undefine(self, name: str) -> None:
        """Forget it; an absent one is no error. A running one lives on until it is off."""
        domain = self._domains.get(name)
        if domain is None:
            return
        self._libvirt().domains.undefine(name)
        self._durable.pop(_DOMAIN + name, None)
        if domain.running:
            domain.persistent = domain.autostart = False
        else:
            del self._domains[name]

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        domain = self.require(name)
        domain.autostart = on
        self._keep(domain)

    def set_metadata(self, name: str, text: str) -> None:
        """Our element of its metadata, or none: as defined and, while it runs, there as well."""
        domain = self.require(name)

        def changed(xml: str) -> str:
            return domainxml.with_mark(xml, text) if text else domainxml.without_mark(xml)

        if domain.persistent:
            domain.xml = changed(domain.xml)
            domain.needs = read_needs(domain.xml)
            self._keep(domain)
        if domain.running is not None:
            domain.live = changed(domain.live)
            domain.running = read_needs(domain.live)

    def live_xml(self, name: str) -> str:
        """What it was started with; HostRefused when it is off."""
        live = self.require(name).live
        if not live:
            why = "Requested operation is not valid: domain is not running"
            raise HostRefused(f"cannot read running domain {name}", why=why)
        return live

    def kept_beside(self, name: str) -> KeptBeside:
        """Nothing: nobody can take a snapshot of a simulated domain, or save it."""
        self.require(name)
        return KeptBeside()

    def cpu_fits(self, xml: str) -> bool | None:
        """Can a guest with that CPU run here? None when libvirt cannot tell."""
        return cpu.fits(self._kernel.host, read_needs(xml))

    def resume(self, name: str) -> None:
        """Let a paused domain go on; HostRefused when it is off, or part of a move."""
        domain = self.unlocked(name, "resume")
        if not domain.running:
            why = "Requested operation is not valid: domain is not running"
            raise HostRefused(f"cannot resume domain {name}", why=why)
        domain.paused = False

    # What a move needs.

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
        self._libvirt().domains.define(xml, validate=False)
        self._domains[name] = domain
        try:
            self._power_on(domain, xml, needs)
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

    def _power_on(self, domain: Domain, xml: str, needs: Needs) -> None:
        name = needs.facts.name
        running = [each.running for each in self._domains.values() if each.running]
        admit(self._kernel, needs, running, self._storage.exists)
        try:
            self._libvirt().domains.start(name)
        except VgpumgrError:
            release(self._kernel, name)
            raise
        domain.running, domain.live = needs, xml

    def _is_off(self, name: str) -> None:
        domain = self._domains[name]
        release(self._kernel, name)
        domain.running, domain.live, domain.paused, domain.job = None, "", False, None
        self._forget_unless_kept(domain)

    def _forget_unless_kept(self, domain: Domain) -> None:
        if not domain.persistent:
            name = domain.needs.facts.name
            self._libvirt().domains.undefine(name)
            self._domains.pop(name, None)

    def _keep(self, domain: Domain) -> None:
        record = json.dumps({"xml": domain.xml, "autostart": domain.autostart})
        self._durable[_DOMAIN + domain.needs.facts.name] = record
