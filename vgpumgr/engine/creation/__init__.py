"""A yes from placement → the VM's record, its allocations, and the steps that make it. Pure
but for the ids, which come from the caller."""

from vgpumgr.engine.creation.domain import domain_xml
from vgpumgr.engine.creation.site import Site
from vgpumgr.engine.creation.vm import Creation, create

__all__ = ["Creation", "Site", "create", "domain_xml"]
