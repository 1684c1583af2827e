"""A yes from placement → the VM's record, its allocations, and the steps that make it. Pure
but for the ids, which come from the caller."""

from vgpumgr.engine.creation.allocations import allocate
from vgpumgr.engine.creation.domain import bound_node, domain_xml, ownership
from vgpumgr.engine.creation.site import Site, autostarts, volume_path
from vgpumgr.engine.creation.vm import Creation, create
from vgpumgr.engine.creation.volumes import Attached, attached, new_first_volume

__all__ = [
    "Attached",
    "Creation",
    "Site",
    "allocate",
    "attached",
    "autostarts",
    "bound_node",
    "create",
    "domain_xml",
    "new_first_volume",
    "ownership",
    "volume_path",
]
