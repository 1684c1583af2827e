"""The domains of one simulated host: libvirt's test driver, refusing what QEMU and VFIO would.

The test driver forgets at its process's end and drops what it does not know: the defined XML is
kept here, and read again at every start.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from vgpumgr import domainxml, virt
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.errors import HostRefused, NotFound, VgpumgrError
from vgpumgr.sim.durable import Durable
from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.libvirt.admission import admit, release
from vgpumgr.sim.libvirt.needs import Needs, read_needs
from vgpumgr.sim.libvirt.storage import SimStorage

_DOMAIN = "domain:"


@dataclass(slots=True)
class _Domain:
    """``running`` is what it was started with; None while it is off."""

    xml: str
    needs: Needs
    autostart: bool = False
    persistent: bool = True
    running: Needs | None = None

    @property
    def facts(self) -> DomainFacts:
        """What libvirt shows of it: while it runs, what it runs with."""
        state = DomainState.RUNNING if self.running else DomainState.SHUTOFF
        return replace(
            (self.running or self.needs).facts,
            state=state,
            autostart=self.autostart,
            persistent=self.persistent,
        )


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
        self._domains: dict[str, _Domain] = {}
        for name, text in durable.under(_DOMAIN).items():
            record = json.loads(text)
            needs = read_needs(record["xml"])
            self._domains[name] = _Domain(record["xml"], needs, record["autostart"])

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
        return self._require(name).xml

    def define(self, xml: str) -> str:
        """Define, validated by libvirt's schema and parser, and return the XML as kept."""
        needs = self._validate(xml)
        read_back = self._libvirt().domains.define(xml, validate=False)
        if not needs.facts.uuid:
            xml, needs = read_back, read_needs(read_back)
        name = needs.facts.name
        domain = self._domains.setdefault(name, _Domain(xml, needs))
        domain.xml, domain.needs, domain.persistent = xml, needs, True
        self._keep(domain)
        return xml

    def start(self, name: str) -> None:
        """Start with what its XML asks for, or refuse as QEMU would; running is no error."""
        domain = self._require(name)
        if domain.running:
            return
        needs = domain.needs
        running = [each.running for each in self._domains.values() if each.running]
        admit(self._kernel, needs, running, self._storage.exists)
        try:
            self._libvirt().domains.start(name)
        except VgpumgrError:
            release(self._kernel, name)
            raise
        domain.running = needs

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off: simulated guests do so at once."""
        self._require(name)
        self._libvirt().domains.shutdown(name)
        self._is_off(name)

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot; refused while it is off."""
        if not self._require(name).running:
            why = "Requested operation is not valid: domain is not running"
            raise HostRefused(f"cannot reboot domain {name}", why=why)

    def destroy(self, name: str) -> None:
        """Power off; a domain that is off is no error."""
        self._require(name)
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
        domain = self._require(name)
        domain.autostart = on
        self._keep(domain)

    def _validate(self, xml: str) -> Needs:
        doing = "cannot define the domain"
        try:
            libvirt = self._kernel.host.versions.libvirt
            problems = domainxml.validate(xml, libvirt=libvirt).problems
            needs = read_needs(xml)
        except ValueError as error:
            raise HostRefused(doing, why=f"XML error: {error}") from error
        if problems:
            raise HostRefused(
                doing, why=f"XML document failed to validate against schema: {problems[0]}"
            )
        if needs.kvm and not self._kernel.host.kvm:
            raise HostRefused(
                doing,
                why="invalid argument: could not find capabilities for domaintype=kvm",
            )
        return needs

    def _is_off(self, name: str) -> None:
        domain = self._domains[name]
        release(self._kernel, name)
        domain.running = None
        if not domain.persistent:
            del self._domains[name]

    def _keep(self, domain: _Domain) -> None:
        record = json.dumps({"xml": domain.xml, "autostart": domain.autostart})
        self._durable[_DOMAIN + domain.needs.facts.name] = record

    def _require(self, name: str) -> _Domain:
        domain = self._domains.get(name)
        if domain is None:
            raise NotFound(f"there is no domain {name}")
        return domain
