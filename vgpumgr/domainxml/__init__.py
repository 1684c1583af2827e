"""Model values ↔ libvirt XML, from ``xml-templates/`` with lxml. No policy lives here."""

from vgpumgr.domainxml.compare import differences
from vgpumgr.domainxml.domain import render
from vgpumgr.domainxml.facts import parse
from vgpumgr.domainxml.moved import moved
from vgpumgr.domainxml.parts import Parts, parts
from vgpumgr.domainxml.schema import Validation, validate
from vgpumgr.domainxml.since import knows
from vgpumgr.domainxml.volume import volume

__all__ = [
    "Parts",
    "Validation",
    "differences",
    "knows",
    "moved",
    "parse",
    "parts",
    "render",
    "validate",
    "volume",
]
