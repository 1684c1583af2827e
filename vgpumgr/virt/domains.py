"""Domains by intent: fulfils ``model.ports.Domains``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import libvirt

from vgpumgr import domainxml
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.errors import NotFound, OutcomeUnknown
from vgpumgr.virt.errors import calling, is_absent, is_unsupported

_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: DomainState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTOFF: DomainState.SHUTOFF,
    libvirt.VIR_DOMAIN_CRASHED: DomainState.CRASHED,
}

# Not every driver knows all flags: the strongest that it takes is used.
_UNDEFINE_FLAGS = (
    libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
    | libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
    0,
)


class LibvirtDomains:
    """The domains of one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def list(self) -> tuple[DomainFacts, ...]:
        """Every domain by name. OutcomeUnknown when one's XML makes no sense."""
        with calling(self._connection, "list domains"):
            found = [_facts(each) for each in self._connection.listAllDomains(0)]
        known = (each for each in found if each is not None)
        return tuple(sorted(known, key=lambda facts: facts.name))

    def look(self, name: str) -> DomainFacts | None:
        """One domain, or None when there surely is none."""
        with calling(self._connection, f"look at domain {name}"):
            domain = self._find(name)
            return None if domain is None else _facts(domain)

    def xml(self, name: str) -> str:
        """The XML it starts from next time; NotFound when there is none."""
        with calling(self._connection, f"read domain {name}"):
            return str(self._require(name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))

    def define(self, xml: str, *, validate: bool = True) -> str:
        """Define, validated against libvirt's schema, and return the XML read back.

        ``validate`` False is for a caller that has validated already: libvirt compiles its schema
        anew at every call (7 ms).
        """
        with calling(self._connection, "define the domain", changes=True):
            domain = self._define(xml) if validate else self._connection.defineXML(xml)
            return str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))

    def start(self, name: str) -> None:
        """Start; a running domain is no error."""
        with calling(self._connection, f"start domain {name}", changes=True):
            domain = self._require(name)
            try:
                if not domain.isActive():
                    domain.create()
            except libvirt.libvirtError:
                if not domain.isActive():
                    raise

    def shutdown(self, name: str) -> None:
        """Ask the guest to power off; a domain that is off is no error."""
        with calling(self._connection, f"shut down domain {name}", changes=True):
            domain = self._require(name)
            if domain.isActive():
                domain.shutdown()

    def reboot(self, name: str) -> None:
        """Ask the guest to reboot."""
        with calling(self._connection, f"reboot domain {name}", changes=True):
            self._require(name).reboot(0)

    def destroy(self, name: str) -> None:
        """Power off; a domain that is off is no error."""
        with calling(self._connection, f"power off domain {name}", changes=True):
            domain = self._require(name)
            try:
                if domain.isActive():
                    domain.destroy()
            except libvirt.libvirtError as error:
                # A transient domain is gone once it is off.
                if not is_absent(error) and domain.isActive():
                    raise

    def undefine(self, name: str) -> None:
        """Forget it, its NVRAM included; an absent domain is no error."""
        with calling(self._connection, f"undefine domain {name}", changes=True):
            domain = self._find(name)
            if domain is not None:
                _undefine(domain)

    def set_autostart(self, name: str, on: bool) -> None:
        """Start with the host, or not."""
        with calling(self._connection, f"set autostart of domain {name}", changes=True):
            self._require(name).setAutostart(1 if on else 0)

    def _define(self, xml: str) -> Any:
        try:
            return self._connection.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        except libvirt.libvirtError as error:
            if not is_unsupported(error):
                raise
            return self._connection.defineXML(xml)

    def _find(self, name: str) -> Any:
        try:
            return self._connection.lookupByName(name)
        except libvirt.libvirtError as error:
            if is_absent(error):
                return None
            raise

    def _require(self, name: str) -> Any:
        domain = self._find(name)
        if domain is None:
            raise NotFound(f"there is no domain {name}")
        return domain


def _undefine(domain: Any) -> None:
    for flags in _UNDEFINE_FLAGS:
        try:
            domain.undefineFlags(flags) if flags else domain.undefine()
        except libvirt.libvirtError as error:
            if is_absent(error):
                return
            if not (flags and is_unsupported(error)):
                raise
        else:
            return


def _facts(domain: Any) -> DomainFacts | None:
    """What one domain shows; None when it vanished while we read."""
    try:
        xml = str(domain.XMLDesc(0))
        state = _STATES.get(domain.state()[0], DomainState.OTHER)
        persistent = bool(domain.isPersistent())
        autostart = persistent and bool(domain.autostart())
    except libvirt.libvirtError as error:
        if is_absent(error):
            return None
        raise
    return replace(
        _parsed(domain.name(), xml), state=state, persistent=persistent, autostart=autostart
    )


def _parsed(name: str, xml: str) -> DomainFacts:
    try:
        return domainxml.parse(xml)
    except ValueError as error:
        raise OutcomeUnknown(
            f"domain {name} cannot be understood", why=str(error), next=f"virsh dumpxml {name}"
        ) from error
