"""Model values ↔ libvirt XML, from ``xml-templates/`` with lxml. No policy lives here."""

from vgpumgr.domainxml.domain_facts import disk_files, disks, parse, state_beside_disks
from vgpumgr.domainxml.domain_parts import DomainParts, parts
from vgpumgr.domainxml.filter_xml import own_filters, port_filter
from vgpumgr.domainxml.foreign_domains import Described, GivenDevice, adopted, described
from vgpumgr.domainxml.libvirt_acceptance import Validation, differences, knows, validate
from vgpumgr.domainxml.migration_xml import moved
from vgpumgr.domainxml.ownership import mark_text, with_mark, without_mark
from vgpumgr.domainxml.plan_xml import render, volume, volume_name

__all__ = [
    "Described",
    "DomainParts",
    "GivenDevice",
    "Validation",
    "adopted",
    "described",
    "differences",
    "disk_files",
    "disks",
    "knows",
    "mark_text",
    "moved",
    "own_filters",
    "parse",
    "parts",
    "port_filter",
    "render",
    "state_beside_disks",
    "validate",
    "volume",
    "volume_name",
    "with_mark",
    "without_mark",
]
