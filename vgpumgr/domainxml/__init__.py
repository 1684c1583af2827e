"""Model values ↔ libvirt XML, from ``xml-templates/`` with lxml. No policy lives here."""

from vgpumgr.domainxml.domain_facts import disks, parse
from vgpumgr.domainxml.domain_parts import DomainParts, parts
from vgpumgr.domainxml.foreign_domains import Described, GivenDevice, adopted, described
from vgpumgr.domainxml.libvirt_acceptance import Validation, differences, knows, validate
from vgpumgr.domainxml.migration_xml import moved
from vgpumgr.domainxml.ownership import mark_text, with_mark, without_mark
from vgpumgr.domainxml.plan_xml import render, volume

__all__ = [
    "Described",
    "DomainParts",
    "GivenDevice",
    "Validation",
    "adopted",
    "described",
    "differences",
    "disks",
    "knows",
    "mark_text",
    "moved",
    "parse",
    "parts",
    "render",
    "validate",
    "volume",
    "with_mark",
    "without_mark",
]
