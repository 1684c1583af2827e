"""Model values ↔ libvirt XML, from ``xml-templates/`` with lxml. No policy lives here."""

from vgpumgr.domainxml.adopted import adopted
from vgpumgr.domainxml.compare import differences
from vgpumgr.domainxml.described import Described, GivenDevice, described
from vgpumgr.domainxml.disks import disks
from vgpumgr.domainxml.domain import render
from vgpumgr.domainxml.facts import parse
from vgpumgr.domainxml.marked import mark_text, with_mark, without_mark
from vgpumgr.domainxml.moved import moved
from vgpumgr.domainxml.parts import Parts, parts
from vgpumgr.domainxml.schema import Validation, validate
from vgpumgr.domainxml.since import knows
from vgpumgr.domainxml.volume import volume

__all__ = [
    "Described",
    "GivenDevice",
    "Parts",
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
