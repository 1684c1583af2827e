"""What libvirt refuses when a domain is defined."""

from __future__ import annotations

from vgpumgr import domainxml
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.simulated import SimHost
from vgpumgr.sim.libvirt.needs import Needs, read_needs


def validated(host: SimHost, xml: str) -> Needs:
    """What the domain needs; HostRefused by libvirt's schema and parser, and without KVM."""
    doing = "cannot define the domain"
    try:
        problems = domainxml.validate(xml, libvirt=host.versions.libvirt).problems
        needs = read_needs(xml)
    except ValueError as error:
        raise HostRefused(doing, why=f"XML error: {error}") from error
    if problems:
        raise HostRefused(
            doing, why=f"XML document failed to validate against schema: {problems[0]}"
        )
    if needs.kvm and not host.kvm:
        raise HostRefused(
            doing,
            why="invalid argument: could not find capabilities for domaintype=kvm",
        )
    return needs
