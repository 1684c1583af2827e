"""A yes from placement → the VM's record, its allocations, and the steps that make it. Pure
but for the ids, which come from the caller."""

from vgpumgr.engine.creation.allocations import allocate
from vgpumgr.engine.creation.domain import domain_xml, ownership
from vgpumgr.engine.creation.seat import numa_seat
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
    "create",
    "domain_xml",
    "new_first_volume",
    "numa_seat",
    "ownership",
    "volume_path",
]
