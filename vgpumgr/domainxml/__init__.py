"""Model values ↔ libvirt XML, from ``xml-templates/`` with lxml. No policy lives here."""

from vgpumgr.domainxml.compare import differences
from vgpumgr.domainxml.domain import render
from vgpumgr.domainxml.facts import parse
from vgpumgr.domainxml.schema import Validation, validate
from vgpumgr.domainxml.since import knows
from vgpumgr.domainxml.volume import volume

__all__ = ["Validation", "differences", "knows", "parse", "render", "validate", "volume"]
